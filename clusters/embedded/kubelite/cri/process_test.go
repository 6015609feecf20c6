package cri

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fork starts a shell script as package cri starts its children.
func fork(t *testing.T, script string) *process {
	t.Helper()
	pidfd := -1
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{PidFD: &pidfd}})
	must(t, err)
	p, err := watch(pid, pidfd)
	must(t, err)
	t.Cleanup(func() { p.killAndWait(time.Minute) })
	return p
}

func TestProcess(t *testing.T) {
	for _, row := range []struct {
		sentence, script string
		code             int32
	}{
		{"a code is a code", "exit 7", 7},
		{"a signal is 128 and its number", "kill -TERM $$", 143},
	} {
		p := fork(t, row.script)
		<-p.done
		if got := p.exitCode(); got != row.code || p.lost {
			t.Errorf("%s: got %d, want %d", row.sentence, got, row.code)
		}
		if err := p.signal(unix.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s: signalled after its end: %v", row.sentence, err)
		}
	}
	p := fork(t, "exec sleep 1000") // a child of it would outlive the test
	if !p.running() {
		t.Error("it does not run")
	}
	must(t, p.killAndWait(time.Minute))
	if p.exitCode() != 137 || p.running() {
		t.Errorf("killed: %d", p.exitCode())
	}
}

// Whoever else waits for it takes the status; it is then said to be lost.
func TestProcessStatusLost(t *testing.T) {
	p := &process{pid: 1 << 30}
	if !p.reap(unix.WNOHANG) || !p.lost || p.exitCode() != unknownExitCode {
		t.Errorf("lost %v, code %d", p.lost, p.exitCode())
	}
}

func TestOnThreadLeavesNoTrace(t *testing.T) {
	read := func() string { l, _ := os.Readlink("/proc/self/cwd"); return l }
	before := read()
	for range 50 {
		must(t, onThread(func() error {
			if unix.Gettid() == unix.Getpid() {
				t.Error("on the main thread")
			}
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return err
			}
			return unix.Chdir("/")
		}))
	}
	if after := read(); after != before {
		t.Errorf("the process is in %s, was in %s", after, before)
	}
	failed := errors.New("failed")
	if err := onThread(func() error { return failed }); err != failed {
		t.Errorf("got %v", err)
	}
}
