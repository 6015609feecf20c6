//go:build unix

package undo

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked means that the run whose log it is still goes on.
var ErrLocked = errors.New("the run still goes on")

func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}
