package cri

import (
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Reasons of a container's end, in containerd's words, which the kubelet shows.
const (
	reasonCompleted = "Completed"
	reasonError     = "Error"
	reasonOOMKilled = "OOMKilled"
	reasonStart     = "StartError"
	reasonUnknown   = "Unknown"
	startExitCode   = 128 // of a container that never ran
)

// lifecycle is the state of a container: created, running, exited, in that
// order and never back. The zero value is not one; see newLifecycle.
type lifecycle struct {
	state                      runtimeapi.ContainerState
	created, started, finished time.Time
	exitCode                   int32
	reason, message            string
}

func newLifecycle(now time.Time) lifecycle {
	return lifecycle{state: runtimeapi.ContainerState_CONTAINER_CREATED, created: now}
}

// start is legal once.
func (l *lifecycle) start(now time.Time) error {
	if l.state != runtimeapi.ContainerState_CONTAINER_CREATED {
		return fmt.Errorf("container is %s, not created", stateName(l.state))
	}
	l.state, l.started = runtimeapi.ContainerState_CONTAINER_RUNNING, now
	return nil
}

// fail records a program that could not be started.
func (l *lifecycle) fail(now time.Time, err error) {
	l.state, l.finished = runtimeapi.ContainerState_CONTAINER_EXITED, now
	l.exitCode, l.reason, l.message = startExitCode, reasonStart, err.Error()
}

// exit records the end of a program that ran. Killed for memory is said only if
// the kernel counted a kill in the container's own cgroup.
func (l *lifecycle) exit(now time.Time, code int32, oomKilled bool) {
	l.state, l.finished, l.exitCode = runtimeapi.ContainerState_CONTAINER_EXITED, now, code
	switch {
	case code == 0:
		l.reason = reasonCompleted
	case oomKilled:
		l.reason = reasonOOMKilled
	default:
		l.reason = reasonError
	}
}

// exitUnknown records the end of a program that nobody saw end.
func (l *lifecycle) exitUnknown(now time.Time) {
	l.exit(now, unknownExitCode, false)
	l.reason, l.message = reasonUnknown, "the exit status was lost"
}

func (l *lifecycle) running() bool { return l.state == runtimeapi.ContainerState_CONTAINER_RUNNING }

func stateName(s runtimeapi.ContainerState) string {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return "created"
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return "running"
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return "exited"
	}
	return "in an unknown state"
}

// nanos is the CRI's time: 0 means never.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
