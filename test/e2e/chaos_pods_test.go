package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/chaos"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// one pod of the component web, by the seed.
var onePod = scenarios.Selection{Component: "web", Count: 1, Seed: 3}

// traffic asks the pods for a file all the time, until the test ends, and holds a connection to each.
func (f *faults) traffic() {
	ctx, cancel := context.WithCancel(f.ctx)
	for _, p := range f.pods("web") {
		conn, err := f.c.DialContext(ctx, "tcp", p.Status.PodIP+":8080")
		f.must(err)
		f.t.Cleanup(func() { conn.Close() })
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, p := range f.pods("web") {
				_, _ = f.get(p.Status.PodIP+":8080", "/file?path=/usr/bin/env")
			}
		}
	}()
	f.t.Cleanup(func() { cancel(); <-done })
}

func TestE2EChaosPods(t *testing.T) {
	for _, row := range []struct {
		action      string
		args        scenarios.Args
		bit, healed string
	}{
		{"podEvict", nil, "left the ready endpoints", "Deployment web has 3 of 3 ready"},
		{"containerSignal", scenarios.Args{"signal": "KILL"}, "ended with exit status 137", "Deployment web has 3 of 3 ready"},
		{"containerSignal", scenarios.Args{"signal": "TERM"}, "ended with exit status 0", "Deployment web has 3 of 3 ready"},
		{"containerPause", nil, "all of its processes are stopped", "no process is stopped"},
		{"partition", scenarios.Args{"direction": "both"}, " dropped on node", "no rules on node"},
		{"packetLoss", scenarios.Args{"share": 0.3}, " dropped on node", "no rules on node"},
		{"bandwidth", scenarios.Args{"rate": 10000.0}, " dropped on node", "no rules on node"},
		{"reconnectStorm", scenarios.Args{"who": "clients"}, "gone from its socket table", "Deployment web has 3 of 3 ready"},
		{"rolloutStuck", scenarios.Args{"component": "web", "how": "image"}, "Image", "Deployment web has 3 of 3 ready"},
		{"rolloutStuck", scenarios.Args{"component": "web", "how": "init"}, "Image", "Deployment web has 3 of 3 ready"},
		{"rolloutStuck", scenarios.Args{"component": "web", "how": "readiness"}, "is not ready", "Deployment web has 3 of 3 ready"},
		{"rolloutStuck", scenarios.Args{"component": "web", "how": "antiAffinity"}, "Unschedulable", "Deployment web has 3 of 3 ready"},
		{"rolloutStuck", scenarios.Args{"component": "web", "how": "quota"}, "exceeded quota", "Deployment web has 3 of 3 ready"},
	} {
		name := fmt.Sprintf("%s %v", row.action, row.args)
		inSpace(t, name, func(s *space) {
			s.apply(served)
			s.ready("web", 3)
			s.eventually("endpoints", func() error { return s.behind("web", 3) })
			f := newFaults(s)
			f.traffic()
			held := f.inject(step("x", row.action, row.args, onePod))
			if bit := f.at(history.FaultBit); !strings.Contains(bit.Proof, row.bit) {
				t.Errorf("bit by %q, want %q", bit.Proof, row.bit)
			}
			if held.Step.Lasting {
				f.must(f.keeper.Heal(f.ctx, "x"))
			}
			f.healed(held)
			if healed := f.at(history.FaultHealed); !strings.Contains(healed.Proof, row.healed) {
				t.Errorf("healed by %q, want %q", healed.Proof, row.healed)
			}
			s.ready("web", 3)
		})
	}
}

func TestE2EChaosPartitionCuts(t *testing.T) {
	inSpace(t, "a pod that is cut off answers nobody, and its neighbour still does", func(s *space) {
		s.apply(served)
		s.ready("web", 3)
		f := newFaults(s)
		f.traffic()
		f.inject(step("cut", "partition", scenarios.Args{"direction": "in", "for": "1h"}, onePod))
		victim := f.at(history.FaultBit).Targets[0]
		for _, p := range s.pods("web") {
			_, err := s.get(p.Status.PodIP+":8080", "/")
			if cut := p.Name == victim.Name; (err != nil) != cut {
				t.Errorf("pod %s, cut %t: %v", p.Name, cut, err)
			}
		}
		s.must(f.keeper.Heal(s.ctx, "cut"))
		s.answers(s.pod(victim.Name).Status.PodIP+":8080", func(body string) bool { return body == victim.Name })
	})
}

func TestE2EChaosConnectionReset(t *testing.T) {
	inSpace(t, "half of the connections of a pod are reset, the pod lives", func(s *space) {
		s.apply(served)
		s.ready("web", 3)
		f := newFaults(s)
		var conns []net.Conn
		for _, p := range s.pods("web") {
			for range 10 {
				conn, err := s.c.DialContext(s.ctx, "tcp", p.Status.PodIP+":8080")
				s.must(err)
				defer conn.Close()
				conns = append(conns, conn)
			}
		}
		f.healed(f.inject(step("cut", "connectionReset", scenarios.Args{"share": 0.5}, onePod)))
		broken := 0
		for _, conn := range conns {
			s.must(conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)))
			if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
				broken++
			}
		}
		if broken != 5 {
			t.Errorf("%d of %d connections were reset, want 5 of the 10 of one pod", broken, len(conns))
		}
		for _, p := range s.pods("web") {
			if p.Status.ContainerStatuses[0].RestartCount > 0 {
				t.Errorf("pod %s restarted", p.Name)
			}
		}
	})
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func TestE2EChaosUnavailable(t *testing.T) {
	inSpace(t, "what the kernel lacks is told, by name, and nothing is changed", func(s *space) {
		f := newFaults(s)
		_, err := f.keeper.Inject(s.ctx, step("slow", "latency", scenarios.Args{"delay": "10ms"}, onePod), 0)
		if err == nil || errors.Is(err, chaos.ErrEmpty) {
			t.Skip("this kernel has netem: nothing to refuse")
		}
		if said := f.at(history.FaultUnavailable).Error; !errors.Is(err, chaos.ErrUnavailable) || !strings.Contains(said, "netem") {
			t.Errorf("%v; %q", err, said)
		}
	})
}

func testChaosAPIServer(f *faults) {
	f.apply(served)
	f.ready("web", 3)
	ip := f.pods("web")[0].Status.PodIP + ":8080"
	began := time.Now()
	held := f.inject(step("outage", "apiServerOutage", scenarios.Args{"for": "5s"}, scenarios.Selection{}))
	if _, err := f.get(ip, "/"); err != nil {
		f.t.Errorf("data traffic during the outage: %v", err)
	}
	f.healed(held)
	if took := time.Since(began); took < 5*time.Second {
		f.t.Errorf("the outage took %s, want at least 5 s", took)
	}
	if bit := f.at(history.FaultBit).Proof; !strings.Contains(bit, "deadline") {
		f.t.Errorf("bit by %q", bit)
	}
	f.ready("web", 3)
}
