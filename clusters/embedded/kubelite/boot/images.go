package boot

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// imageBroker is our end of the image service, which runs outside the
// namespaces because registries are there. We make the socket that kubelets
// will find in the cluster's file system and hand its listening end over.
type imageBroker struct{ link *net.UnixConn }

func openImages(sources []ImageSource) (*imageBroker, error) {
	conn, err := net.FileConn(os.NewFile(fdImages, "images"))
	if err != nil {
		return nil, fmt.Errorf("image service: %w", err)
	}
	link, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("image service: descriptor %d is no unix socket", fdImages)
	}
	b := &imageBroker{link: link}
	if err := b.handOver(); err != nil {
		return nil, err
	}
	for _, s := range sources {
		if err := b.add(s); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// handOver gives the listening end of the images socket away.
func (b *imageBroker) handOver() error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: imagesSocket(), Net: "unix"})
	if err != nil {
		return fmt.Errorf("image socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	if err != nil {
		return err
	}
	defer f.Close()
	defer l.Close()
	if _, _, err := b.link.WriteMsgUnix([]byte{'l'}, syscall.UnixRights(int(f.Fd())), nil); err != nil {
		return fmt.Errorf("image socket: %w", err)
	}
	return nil
}

func (b *imageBroker) add(s ImageSource) error { return nil }

func nodeLimits() limits { return limits{} }
