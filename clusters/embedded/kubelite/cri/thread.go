package cri

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onThread runs f on a thread of its own that ends with it, so that f may enter
// namespaces and change roots without ever giving the thread back to Go.
// Children forked there must not use Pdeathsig, which follows the thread.
func onThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// Go never ends the main thread, and /proc/self speaks for it: it is
			// held here while another takes the work.
			defer runtime.UnlockOSThread()
			result <- onThread(f)
			return
		}
		result <- f()
	}()
	return <-result
}

// enter moves the calling, locked thread.
func enter(namespaces ...*os.File) error {
	for _, ns := range namespaces {
		if ns == nil {
			continue
		}
		if err := unix.Setns(int(ns.Fd()), 0); err != nil {
			return fmt.Errorf("enter namespace %s: %w", ns.Name(), err)
		}
	}
	return nil
}

// openNamespace opens the calling thread's namespace of a kind: net, ipc, uts.
func openNamespace(kind string) (*os.File, error) {
	return os.Open("/proc/thread-self/ns/" + kind)
}
