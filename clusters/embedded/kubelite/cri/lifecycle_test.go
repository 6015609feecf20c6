package cri

import (
	"errors"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestLifecycle(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	for _, row := range []struct {
		sentence string
		do       func(l *lifecycle)
		state    runtimeapi.ContainerState
		code     int32
		reason   string
	}{
		{"a new container is created", func(l *lifecycle) {}, runtimeapi.ContainerState_CONTAINER_CREATED, 0, ""},
		{"started, it runs", func(l *lifecycle) { l.start(at(2)) }, runtimeapi.ContainerState_CONTAINER_RUNNING, 0, ""},
		{"code 0 is completed", func(l *lifecycle) { l.start(at(2)); l.exit(at(3), 0, false) }, runtimeapi.ContainerState_CONTAINER_EXITED, 0, "Completed"},
		{"code 0 is completed even if some process of it was killed for memory", func(l *lifecycle) { l.start(at(2)); l.exit(at(3), 0, true) }, runtimeapi.ContainerState_CONTAINER_EXITED, 0, "Completed"},
		{"another code is an error", func(l *lifecycle) { l.start(at(2)); l.exit(at(3), 137, false) }, runtimeapi.ContainerState_CONTAINER_EXITED, 137, "Error"},
		{"killed for memory says so", func(l *lifecycle) { l.start(at(2)); l.exit(at(3), 137, true) }, runtimeapi.ContainerState_CONTAINER_EXITED, 137, "OOMKilled"},
		{"a program that cannot start is a start error", func(l *lifecycle) { l.fail(at(3), errors.New("why")) }, runtimeapi.ContainerState_CONTAINER_EXITED, 128, "StartError"},
		{"an end that nobody saw is unknown", func(l *lifecycle) { l.start(at(2)); l.exitUnknown(at(3)) }, runtimeapi.ContainerState_CONTAINER_EXITED, 255, "Unknown"},
	} {
		l := newLifecycle(at(1))
		row.do(&l)
		if l.state != row.state || l.exitCode != row.code || l.reason != row.reason {
			t.Errorf("%s: got %s %d %q", row.sentence, l.state, l.exitCode, l.reason)
		}
	}
	l := newLifecycle(at(1))
	l.start(at(2))
	if err := l.start(at(3)); err == nil || l.started != at(2) {
		t.Error("a container starts once")
	}
	l.exit(at(4), 0, false)
	if err := l.start(at(5)); err == nil {
		t.Error("an ended container does not start again")
	}
	if nanos(time.Time{}) != 0 || nanos(at(1)) != 1e9 {
		t.Error("never is 0, else it is nanoseconds")
	}
}
