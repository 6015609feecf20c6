package cri

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// root resolves paths as the container will, so that no symbolic link of an
// image leads out of it: /var/run is an absolute link in most images.
type root struct{ fd int }

const maxLinks = 40 // as the kernel's own limit, path_resolution(7)

func openRoot(dir string) (root, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return root{}, &os.PathError{Op: "open root", Path: dir, Err: err}
	}
	return root{fd}, nil
}

func (r root) Close() error { return unix.Close(r.fd) }

// open opens name inside the root. The caller closes the descriptor.
func (r root) open(name string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(r.fd, name, &how)
		if err == nil {
			return fd, nil
		}
		// EAGAIN: something was renamed while the kernel checked for "..".
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return -1, &os.PathError{Op: "open in root", Path: name, Err: err}
		}
	}
}

// readFile returns the content of a file inside the root.
func (r root) readFile(name string) (*os.File, error) {
	fd, err := r.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// mkdirAll returns a descriptor of the directory name, making what is missing.
func (r root) mkdirAll(name string) (int, error) {
	return r.make(path.Clean("/"+name), 0, func(dir int, base string) error {
		return unix.Mkdirat(dir, base, 0o755)
	}, unix.O_PATH|unix.O_DIRECTORY)
}

// realDir makes the directory name at the top, and refuses a link in its place:
// the shim mounts on it from outside the root.
func (r root) realDir(name string) error {
	if err := unix.Mkdirat(r.fd, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "mkdir in root", Path: "/" + name, Err: err}
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH}
	fd, err := unix.Openat2(r.fd, name, &how)
	if err != nil {
		return fmt.Errorf("the image's /%s is not a directory: %w", name, err)
	}
	return unix.Close(fd)
}

// touch returns a descriptor of the file name, making it and its directories.
func (r root) touch(name string) (int, error) {
	return r.make(path.Clean("/"+name), 0, func(dir int, base string) error {
		fd, err := unix.Openat(dir, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}, unix.O_PATH)
}

// make opens name; where it is missing it makes the parents, then the last
// component with create, and follows a dangling link to what it names.
func (r root) make(name string, links int, create func(dir int, base string) error, flags uint64) (int, error) {
	if links > maxLinks {
		return -1, &os.PathError{Op: "make in root", Path: name, Err: unix.ELOOP}
	}
	fd, err := r.open(name, flags)
	if err == nil || !errors.Is(err, unix.ENOENT) || name == "/" {
		return fd, err
	}
	dir, base := path.Split(name)
	parent, err := r.mkdirAll(dir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	switch err := create(parent, base); {
	case err == nil:
		return r.open(name, flags)
	case !errors.Is(err, unix.EEXIST):
		return -1, &os.PathError{Op: "make in root", Path: name, Err: err}
	}
	target, err := readlinkat(parent, base)
	if err != nil { // made by someone else meanwhile
		return r.open(name, flags)
	}
	if !strings.HasPrefix(target, "/") {
		target = path.Join(dir, target)
	}
	return r.make(path.Clean(target), links+1, create, flags)
}

func readlinkat(dir int, base string) (string, error) {
	var b [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, base, b[:])
	return string(b[:max(n, 0)]), err
}

// lookPath finds the program file as execvp would, inside the root.
func (r root) lookPath(file, dir string, env []string) (string, error) {
	if strings.Contains(file, "/") {
		p := file
		if !path.IsAbs(p) {
			p = path.Join(dir, p)
		}
		if err := r.executable(p); err != nil {
			return "", fmt.Errorf("exec: %q: %w", file, err)
		}
		return p, nil
	}
	var denied error
	for _, d := range strings.Split(lookupEnv(env, "PATH"), ":") {
		p := path.Join(d, file)
		if !path.IsAbs(d) {
			p = path.Join(dir, d, file)
		}
		switch err := r.executable(p); {
		case err == nil:
			return p, nil
		case errors.Is(err, unix.EACCES):
			denied = err
		}
	}
	if denied != nil {
		return "", fmt.Errorf("exec: %q: %w", file, denied)
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", file)
}

func (r root) executable(name string) error {
	fd, err := r.open(name, unix.O_PATH)
	if err != nil {
		return fmt.Errorf("stat %s: %w", name, errors.Unwrap(err))
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return fmt.Errorf("%s: %w", name, unix.EISDIR)
	case st.Mode&0o111 == 0:
		return fmt.Errorf("%s: %w", name, unix.EACCES)
	}
	return nil
}
