package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// namespaces are a pod's own. Open files keep them; a nil one is the node's.
type namespaces struct {
	net, ipc, uts *os.File
}

func (n *namespaces) Close() error {
	var errs []error
	for _, f := range []*os.File{n.net, n.ipc, n.uts} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// newNamespaces makes the namespaces that the pod does not share with the node,
// with its hostname and sysctls set. The handle, open inside the network
// namespace, is nil on the node's network.
func newNamespaces(opts *runtimeapi.NamespaceOption, hostname string, sysctls map[string]string) (*namespaces, *netlink.Handle, error) {
	ns := &namespaces{}
	var handle *netlink.Handle
	err := onThread(func() (err error) {
		flags := 0
		ownNet := opts.GetNetwork() != runtimeapi.NamespaceMode_NODE
		ownIPC := opts.GetIpc() != runtimeapi.NamespaceMode_NODE
		if ownNet {
			flags |= unix.CLONE_NEWNET | unix.CLONE_NEWUTS
		}
		if ownIPC {
			flags |= unix.CLONE_NEWIPC
		}
		if err := unix.Unshare(flags); err != nil {
			return fmt.Errorf("new namespaces: %w", err)
		}
		if ownIPC {
			if ns.ipc, err = openNamespace("ipc"); err != nil {
				return err
			}
		}
		if ownNet {
			if handle, err = ns.ownNetwork(hostname); err != nil {
				return err
			}
		}
		return setSysctls(sysctls)
	})
	if err != nil {
		ns.Close()
		if handle != nil {
			handle.Close()
		}
		return nil, nil, err
	}
	return ns, handle, nil
}

// ownNetwork runs inside the new namespaces.
func (n *namespaces) ownNetwork(hostname string) (_ *netlink.Handle, err error) {
	if n.net, err = openNamespace("net"); err != nil {
		return nil, err
	}
	if n.uts, err = openNamespace("uts"); err != nil {
		return nil, err
	}
	if hostname != "" {
		if err := unix.Sethostname([]byte(hostname)); err != nil {
			return nil, fmt.Errorf("set hostname %q: %w", hostname, err)
		}
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink in the pod: %w", err)
	}
	lo := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "lo", Index: 1}}
	if err := h.LinkSetUp(lo); err != nil {
		h.Close()
		return nil, fmt.Errorf("loopback up: %w", err)
	}
	// Any user may bind any port, as containerd and Docker have it for pods.
	return h, setSysctls(map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"})
}

// setSysctls writes those of the calling thread's namespaces and refuses others,
// which would be the whole machine's.
func setSysctls(sysctls map[string]string) error {
	for name, value := range sysctls {
		if !namespaced(name) {
			return fmt.Errorf("sysctl %s belongs to the node, not to a pod; allowed are net.*, kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.*", name)
		}
		path := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
		if strings.Contains(name, "/") { // the other spelling, for names with dots inside
			path = "/proc/sys/" + name
		}
		if filepath.Clean(path) != path {
			return fmt.Errorf("sysctl %q is not a name", name)
		}
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return fmt.Errorf("set sysctl %s=%s: %w", name, value, err)
		}
	}
	return nil
}

func namespaced(sysctl string) bool {
	name := strings.ReplaceAll(sysctl, "/", ".")
	for _, prefix := range []string{"net.", "fs.mqueue.", "kernel.shm", "kernel.msg"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "kernel.sem"
}
