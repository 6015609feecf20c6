package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"shakedown.dev/shakedown/clusters/embedded/kubelite/images"
	"shakedown.dev/shakedown/clusters/embedded/kubelite/node"
)

// ImagesLink is what kubelite init tells the image service, which runs outside
// the namespaces because registries are there: first one Terms with the
// listening end of the socket that kubelets use, then a Source for each image,
// answered by a Reply. One JSON document a line.
type (
	// Terms are what the image service has to know of the cluster.
	Terms struct {
		// HostRoot is the machine's root as the cluster's nodes can mount it.
		HostRoot string `json:"hostRoot"`
		// UserNamespace is set for the cluster of an ordinary user.
		UserNamespace bool `json:"userNamespace"`
	}
	// Source registers one image source.
	Source = ImageSource
	// Reply has the reason when a Source was refused.
	Reply struct {
		Error string `json:"error,omitempty"`
	}
)

// imageBroker is our end of the link to the image service.
type imageBroker struct {
	mu      sync.Mutex // one question at a time
	link    *net.UnixConn
	replies chan Reply // closed when the service is gone
}

// openImages meets the image service. When that dies, gone is told: kubelets
// could pull nothing any more.
func openImages(sources []ImageSource, log *slog.Logger, gone func(error)) (*imageBroker, error) {
	conn, err := net.FileConn(os.NewFile(fdImages, "images"))
	if err != nil {
		return nil, fmt.Errorf("image service: %w", err)
	}
	link, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("image service: descriptor %d is no unix socket", fdImages)
	}
	b := &imageBroker{link: link, replies: make(chan Reply)}
	if err := b.handOver(hostRootTerms(log)); err != nil {
		return nil, err
	}
	go b.listen(gone)
	for _, s := range sources {
		if err := b.add(s); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// hostRootTerms mounts the machine's root as a layer where that is possible.
// Elsewhere the runtime builds it directory by directory (see cri's overlay).
func hostRootTerms(log *slog.Logger) Terms {
	root, err := images.MountHostRoot(filepath.Join(stateDir, "host"))
	if err != nil {
		log.Info("images on the machine's root are put together by directory", "why", err)
		root = "/"
	}
	return Terms{HostRoot: root, UserNamespace: node.InUserNamespace()}
}

// handOver gives the listening end of the kubelets' socket away.
func (b *imageBroker) handOver(t Terms) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: imagesSocket(), Net: "unix"})
	if err != nil {
		return fmt.Errorf("image socket: %w", err)
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(imagesSocket(), 0o600); err != nil {
		return err
	}
	f, err := l.File()
	if err != nil {
		return err
	}
	defer f.Close()
	line, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if _, _, err := b.link.WriteMsgUnix(append(line, '\n'), syscall.UnixRights(int(f.Fd())), nil); err != nil {
		return fmt.Errorf("image socket: %w", err)
	}
	return nil
}

// add registers a source; it holds for pulls from now on.
func (b *imageBroker) add(s ImageSource) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if _, err := b.link.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("image service: %w", err)
	}
	r, ok := <-b.replies
	if !ok {
		return errors.New("the image service is gone")
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// listen takes the service's replies until it is gone.
func (b *imageBroker) listen(gone func(error)) {
	defer close(b.replies)
	for lines := json.NewDecoder(b.link); ; {
		var r Reply
		if err := lines.Decode(&r); err != nil {
			gone(fmt.Errorf("the image service ended: %w", err))
			return
		}
		b.replies <- r
	}
}
