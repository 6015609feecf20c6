package recorder

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// errLocked means that another service works on the file.
var errLocked = errors.New("locked by another service")

// lockFile opens a file and takes its lock without waiting. unlock also closes it.
func lockFile(path string, flags int) (f *os.File, unlock func(), err error) {
	// Truncating has to wait until the lock is held.
	f, err = os.OpenFile(path, flags&^os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil, errLocked
		}
		return nil, nil, err
	}
	if flags&os.O_TRUNC != 0 {
		if err := f.Truncate(0); err != nil {
			f.Close()
			return nil, nil, err
		}
	}
	return f, func() { f.Close() }, nil
}
