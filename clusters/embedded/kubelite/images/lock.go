package images

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// fileLock is an advisory lock between processes and goroutines alike. The
// kernel drops it with its holder. Its file is never removed: a waiter could
// otherwise hold a lock on a name that is gone.
type fileLock struct{ f *os.File }

// lockFile waits for the lock, how being unix.LOCK_EX or LOCK_SH.
func lockFile(ctx context.Context, file string, how int) (*fileLock, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = flock(f, how|unix.LOCK_NB)
	if err == nil {
		return &fileLock{f}, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	done := make(chan error, 1)
	go func() { done <- flock(f, how) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		go func() { <-done; f.Close() }()
		return nil, fmt.Errorf("wait for another to unpack the same: %w", ctx.Err())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	return &fileLock{f}, nil
}

// tryLockFile takes the exclusive lock or returns nil if someone holds it.
func tryLockFile(file string) (*fileLock, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	return &fileLock{f}, nil
}

func (l *fileLock) unlock() { l.f.Close() }

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
