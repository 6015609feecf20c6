package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"shakedown.dev/shakedown/internal/exit"
)

// minFree is what a cluster without images writes to the cache's disk in the worst of cases.
const minFree = 256 << 20

// preflight finds kubelite, and refuses what would fail later with a worse message.
func (p *Provider) preflight(cache string) (kubelite string, err error) {
	if kubelite, err = p.findKubelite(); err != nil {
		return "", err
	}
	if _, err := lookProgram("nft"); err != nil {
		return "", exit.Hint(errors.New("the program nft is missing, which kube-proxy needs"),
			"install the package nftables (make deps); or "+useKind)
	}
	free, err := freeBytes(cache)
	if err != nil {
		return "", fmt.Errorf("image cache: %w", err)
	}
	if free < minFree {
		return "", explainDisk(&os.PathError{Op: "statfs", Path: cache, Err: syscall.ENOSPC}, cache)
	}
	return kubelite, nil
}

// findKubelite looks where p says, then $SHAKEDOWN_KUBELITE, beside this program, and $PATH.
func (p *Provider) findKubelite() (string, error) {
	for _, path := range []string{p.Kubelite, os.Getenv("SHAKEDOWN_KUBELITE")} {
		if path == "" {
			continue
		}
		if _, err := exec.LookPath(path); err != nil {
			return "", exit.Hint(fmt.Errorf("kubelite: %w", err), "run make build")
		}
		return filepath.Abs(path)
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "kubelite")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("kubelite")
	if err != nil {
		return "", exit.Hint(errors.New("the program kubelite is neither beside shakedown nor in $PATH"),
			"run make build, or set $SHAKEDOWN_KUBELITE; or "+useKind)
	}
	return filepath.Abs(path)
}

// lookProgram is exec.LookPath with the folders of root's programs, which users seldom have in $PATH.
func lookProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}

func freeBytes(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return s.Bavail * uint64(s.Bsize), nil
}

func explainDisk(err error, dir string) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return exit.Hint(fmt.Errorf("the disk of %s is full: a cluster needs %d MiB there", dir, minFree>>20),
		"free some space, or point $XDG_CACHE_HOME at another disk")
}

// childPath is $PATH with the folders of root's programs in it.
func childPath() string {
	path := os.Getenv("PATH")
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if !strings.Contains(":"+path+":", ":"+dir+":") {
			path += ":" + dir
		}
	}
	return path
}
