package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"shakedown.dev/shakedown/clusters/embedded/embeddedtest"
)

// isolatedVar is "yes" inside the network namespace of the tests, "no" if none can be had.
const isolatedVar = "CLI_TEST_ISOLATED"

func fakes() map[string]func() {
	return map[string]func(){"kubelite": embeddedtest.Main}
}

// isolate runs the tests again in a network namespace of their own: cluster names belong to a network
// namespace, and `down --all` in a test must not end what somebody works with.
func isolate() {
	if os.Getenv(isolatedVar) != "" {
		return
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), isolatedVar+"=yes")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		fmt.Println("no network namespace for the tests, so those with clusters are skipped:", err)
		os.Setenv(isolatedVar, "no")
		return
	}
	err := cmd.Wait()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(failed.ExitCode())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}
