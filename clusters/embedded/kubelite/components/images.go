package components

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"shakedown.dev/shakedown/clusters/embedded/kubelite/boot"
	"shakedown.dev/shakedown/clusters/embedded/kubelite/cri"
	"shakedown.dev/shakedown/clusters/embedded/kubelite/images"
)

// imagesLinkFD is the image service's end of the link to kubelite init.
const imagesLinkFD = 3

// imagesSpec is the copy of ImagesSpec in clusters/embedded/protocol.go.
type imagesSpec struct {
	Protocol   int    `json:"protocol"`
	Name       string `json:"name"`
	ImageCache string `json:"imageCache"`
}

// serveImages is the image service of one cluster. It runs outside the
// cluster's namespaces and ends with the other end of its link, which only
// kubelite init holds. Being the last of the cluster to know, it also takes away
// its empty cgroups, the one thing that the kernel leaves.
func serveImages([]string) error {
	var spec imagesSpec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		return fmt.Errorf("images: spec on stdin: %w", err)
	}
	syscall.CloseOnExec(imagesLinkFD)
	conn, err := net.FileConn(os.NewFile(imagesLinkFD, "link"))
	if err != nil {
		return fmt.Errorf("images: link: %w", err)
	}
	link, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("images: descriptor %d is no unix socket", imagesLinkFD)
	}
	terms, listener, err := takeOver(link)
	if err != nil {
		return fmt.Errorf("images: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("component", "images")
	sweep(spec.Name, log) // what an earlier cluster of the name left, killed together with its image service
	defer sweepAtEnd(spec.Name, log)
	program, err := os.Executable()
	if err != nil {
		return err
	}
	store, err := images.NewStore(images.Config{
		Dir: spec.ImageCache, UserNamespace: terms.UserNamespace, HostRoot: terms.HostRoot,
		Builtins: []images.Builtin{images.Host(), images.Etcd(program)},
		Log:      log,
	})
	if err != nil {
		return err
	}
	defer store.Close()
	go prune(store, log)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- images.Serve(ctx, listener, store) }()
	go func() { failed <- takeSources(link, store) }()
	return <-failed
}

// unusedFor is how long a layer of the cache stays that no cluster uses. Programs that are built anew every day leave
// one each day.
const unusedFor = 3 * 24 * time.Hour

func prune(store *images.Store, log *slog.Logger) {
	freed, err := store.Prune(unusedFor)
	if err != nil {
		log.Warn("old layers are left in the image cache", "err", err)
	}
	if freed > 0 {
		log.Info("old layers of the image cache are removed", "bytes", freed)
	}
}

func sweep(cluster string, log *slog.Logger) {
	if err := cri.SweepCgroups(cluster); err != nil {
		log.Warn("cgroups are left", "err", err)
	}
}

// dying is how long the kernel may need to end the processes of a cluster whose first one was killed: the link breaks
// with that one, and a cgroup can go when its last process has gone.
const dying = 20 * time.Second

func sweepAtEnd(cluster string, log *slog.Logger) {
	for until := time.Now().Add(dying); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if cri.SweepCgroups(cluster) == nil {
			return
		}
	}
	sweep(cluster, log)
}

// takeOver receives the terms and the listening socket.
func takeOver(link *net.UnixConn) (boot.Terms, net.Listener, error) {
	var t boot.Terms
	buf, oob := make([]byte, 4096), make([]byte, 64)
	n, oobn, _, _, err := link.ReadMsgUnix(buf, oob)
	if err != nil {
		return t, nil, err
	}
	// One message, one line: the sender waits for nothing before it is read.
	if err := json.Unmarshal(bytes.TrimSuffix(buf[:n], []byte{'\n'}), &t); err != nil {
		return t, nil, err
	}
	msgs, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 {
		return t, nil, fmt.Errorf("no listening socket came over the link: %v", err)
	}
	fds, err := syscall.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return t, nil, fmt.Errorf("no listening socket came over the link: %v", err)
	}
	syscall.CloseOnExec(fds[0])
	f := os.NewFile(uintptr(fds[0]), "images.sock")
	defer f.Close()
	l, err := net.FileListener(f)
	return t, l, err
}

// takeSources registers sources until the cluster is gone.
func takeSources(link *net.UnixConn, store *images.Store) error {
	lines := bufio.NewReader(link)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var s boot.Source
		var r boot.Reply
		err = json.Unmarshal(line, &s)
		if err == nil {
			err = store.Add(s.Name, s.Source)
		}
		if err != nil {
			r.Error = err.Error()
		}
		answer, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := link.Write(append(answer, '\n')); err != nil {
			return err
		}
	}
}
