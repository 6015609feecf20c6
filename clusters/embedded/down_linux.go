package embedded

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"shakedown.dev/shakedown/clusters"
)

const (
	politeDown = 5 * time.Second // how long kubelite may take to end itself
	killedDown = 5 * time.Second // how long the kernel may take after SIGKILL
)

// Down asks kubelite to end, and kills it if it does not. The process is found by the socket that it
// holds, as the kernel tells it, so that a kubelite that answers nothing is brought down too.
func (p *Provider) Down(ctx context.Context, name string) error {
	if err := clusters.ValidateName(name); err != nil {
		return err
	}
	c := open(os.Geteuid(), name)
	processes, err := findProcesses(c)
	if err != nil {
		return &clusters.NameError{Name: name, Err: err}
	}
	defer processes.close()
	polite, cancel := context.WithTimeout(ctx, politeDown)
	defer cancel()
	_, _, err = c.ask(polite, Request{Op: OpDown})
	if errors.Is(err, errForeign) {
		return &clusters.NameError{Name: name, Err: err}
	}
	if err == nil || errors.Is(err, clusters.ErrNotFound) {
		err = processes.wait(polite)
	}
	if err != nil {
		p.log().Debug("kubelite did not end itself: killing it", "cluster", name, "why", err)
		err = processes.kill(ctx)
	}
	return errors.Join(err, c.waitGone(ctx))
}

// waitGone returns when the name is free.
func (c *Cluster) waitGone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, killedDown)
	defer cancel()
	for {
		inode, err := controlInode(c.socket)
		if err != nil || inode == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return &clusters.NameError{Name: c.name, Err: errors.New("its control socket is still there")}
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// processes are pidfds: unlike pids they never name somebody else.
type processes []int

// findProcesses are kubelite init and its helper outside, those that are there.
func findProcesses(c *Cluster) (processes, error) {
	inode, err := controlInode(c.socket)
	if err != nil {
		return nil, err
	}
	pids, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found processes
	for _, dir := range pids {
		isInit := inode != "" && isNamespaceInit(dir) && holdsSocket(dir, inode)
		if !isInit && !isHelper(dir, c.uid, c.name) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			found = append(found, fd)
		}
	}
	return found, nil
}

// controlInode is the inode of the listening socket of that name, "" if there is none.
func controlInode(socket string) (string, error) {
	table, err := os.Open("/proc/net/unix")
	if err != nil {
		return "", err
	}
	defer table.Close()
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		columns := strings.Fields(lines.Text())
		if len(columns) < 8 || columns[7] != socket {
			continue
		}
		if flags, err := strconv.ParseUint(columns[3], 16, 64); err == nil && flags&acceptsConnections != 0 {
			return columns[6], nil
		}
	}
	return "", lines.Err()
}

// isNamespaceInit reports whether the process is PID 1 of a namespace below ours: the launcher holds the
// socket as well while it starts a cluster, and must not be taken for it.
func isNamespaceInit(dir string) bool {
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			levels := strings.Fields(pids)
			return len(levels) > 1 && levels[len(levels)-1] == "1"
		}
	}
	return false
}

func holdsSocket(dir, inode string) bool {
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
		target, err := os.Readlink(dir + "/fd/" + fd.Name())
		return err == nil && target == "socket:["+inode+"]"
	})
}

// isHelper recognises `kubelite images NAME` of this user by its arguments.
func isHelper(dir string, uid int, name string) bool {
	var stat unix.Stat_t
	if unix.Stat(dir, &stat) != nil || int(stat.Uid) != uid {
		return false
	}
	text, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return false
	}
	args := bytes.Split(bytes.TrimSuffix(text, []byte{0}), []byte{0})
	return len(args) == 3 && strings.HasPrefix(filepath.Base(string(args[0])), "kubelite") &&
		string(args[1]) == "images" && string(args[2]) == name
}

func (ps processes) wait(ctx context.Context) error {
	for _, fd := range ps {
		for {
			ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20)
			if ready > 0 {
				break
			}
			if err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("wait for kubelite: %w", err)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

func (ps processes) kill(ctx context.Context) error {
	for _, fd := range ps {
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill kubelite: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, killedDown)
	defer cancel()
	return ps.wait(ctx)
}

func (ps processes) close() {
	for _, fd := range ps {
		_ = unix.Close(fd)
	}
}
