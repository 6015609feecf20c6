package watch

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/pods"
)

// nowhere is a history that costs nothing.
type nowhere struct{}

func (nowhere) Record(history.Event)          {}
func (nowhere) Now() time.Duration            { return time.Second }
func (nowhere) Since(time.Time) time.Duration { return time.Second }

// busy is a state of a large installation.
func busy() *State {
	s := NewState(nowhere{})
	s.synced()
	for i := range 50 {
		s.setPod(pods.Pod{Name: fmt.Sprint(i), UID: fmt.Sprint(i), IP: "10.0.0.1", Component: pods.Proxy, Phase: corev1.PodRunning, Ready: true})
	}
	s.Record(history.Event{Data: history.RunStart{Desired: map[string]int{"proxy": 50}}})
	return s
}

// BenchmarkRecord is what reading along costs each session.
func BenchmarkRecord(b *testing.B) {
	s := busy()
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprint(i)
		due := time.Duration(i) * time.Millisecond
		s.Record(history.Event{At: due, Data: history.SessionOpened{ID: id, Type: "ssh", Due: due, Open: due}})
		s.Record(history.Event{At: due, Data: history.Session{ID: id, Class: history.Clean}})
	}
}

func BenchmarkProbe(b *testing.B) {
	s := busy()
	for i := 0; b.Loop(); i++ {
		s.Record(history.Event{Data: history.Probe{Pod: history.PodRef{UID: fmt.Sprint(i % 50), Component: "proxy"}}})
	}
}

// BenchmarkProxies is what each session asks for.
func BenchmarkProxies(b *testing.B) {
	s := busy()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.Proxies()
		}
	})
}
