package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/chaos"
	"shakedown.dev/shakedown/clusters"
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
			time.Sleep(50 * time.Millisecond)
		}
	}()
	f.t.Cleanup(func() { cancel(); <-done })
}

// podFault is a fault of pods with what its proofs say.
type podFault struct {
	action      string
	args        scenarios.Args
	bit, healed string
}

func (r podFault) name() string { return fmt.Sprintf("%s %v", r.action, r.args) }

const allBack = "Deployment web has 3 of 3 ready"

var podFaults = []podFault{
	{"podEvict", nil, "left the ready endpoints", allBack},
	{"containerSignal", scenarios.Args{"signal": "KILL"}, "ended with exit status 137", allBack},
	{"containerSignal", scenarios.Args{"signal": "TERM"}, "ended with exit status 0", allBack},
	{"containerPause", nil, "all of its processes are stopped", "no process is stopped"},
	{"partition", scenarios.Args{"direction": "both"}, " dropped on node", "no rules on node"},
	{"packetLoss", scenarios.Args{"share": 0.3}, " dropped on node", "no rules on node"},
	{"bandwidth", scenarios.Args{"rate": 10000.0}, " dropped on node", "no rules on node"},
	{"reconnectStorm", scenarios.Args{"who": "clients"}, "gone from its socket table", allBack},
	{"rolloutStuck", scenarios.Args{"component": "web", "how": "image"}, "Image", allBack},
	{"rolloutStuck", scenarios.Args{"component": "web", "how": "init"}, "Image", allBack},
	{"rolloutStuck", scenarios.Args{"component": "web", "how": "readiness"}, "is not ready", allBack},
	{"rolloutStuck", scenarios.Args{"component": "web", "how": "config"}, "ended with exit status 1", allBack},
	{"rolloutStuck", scenarios.Args{"component": "web", "how": "antiAffinity"}, "Unschedulable", allBack},
	{"rolloutStuck", scenarios.Args{"component": "web", "how": "quota"}, "exceeded quota", allBack},
	{"backendFailure", scenarios.Args{"how": "paused"}, "all of its processes are stopped", "no process is stopped"},
	{"backendFailure", scenarios.Args{"how": "slow", "delay": "100ms"}, "of 20 looks", "never stopped in 20 looks"},
	{"volumeFull", scenarios.Args{"path": "/var/lib/teleport"}, "No space left on device", "a file can be made in /var/lib/teleport"},
	{"volumeReadOnly", scenarios.Args{"path": "/var/lib/teleport"}, "Read-only file system", "a file can be made in /var/lib/teleport"},
	{"resourceStress", scenarios.Args{"cpus": 1.0, "memory": 32.0 * 1024 * 1024, "files": 5.0}, "KiB more are resident", "nothing of ours runs in it"},
	{"clockSkew", scenarios.Args{"by": "10m", "direction": "forward"}, "is 10m", "is 0s off"},
	{"clockSkew", scenarios.Args{"by": "1h", "direction": "back"}, " off", "is 0s off"},
	{"dnsFailure", scenarios.Args{"names": []string{"web"}, "answer": "nxdomain"}, "NXDOMAIN, before 10.96.", "for 5 s"},
	{"dnsFailure", scenarios.Args{"names": []string{"we*"}, "answer": "servfail"}, "SERVFAIL, before 10.96.", "for 5 s"},
	{"dnsFailure", scenarios.Args{"names": []string{"web"}, "answer": "timeout"}, "no answer within 2.0 s, before 10.96.", "for 5 s"},
	{"dnsFailure", scenarios.Args{"names": []string{"web"}, "answer": "stale"}, "for 77 s, before 10.96.", "for 5 s"},
}

// TestE2EChaosPods injects each of them into one of three pods, sees its proof, heals, and sees that too.
func TestE2EChaosPods(t *testing.T) {
	atOnce(t, podFaults, podFault.name, func(t *testing.T, row podFault) {
		s := newSpace(context.WithoutCancel(t.Context()), t, shared) // cleaning up needs it, too
		s.apply(served)
		s.ready("web", 3)
		s.eventually("endpoints", func() error { return s.behind("web", 3) })
		f := newFaults(s)
		f.traffic()
		began := time.Now()
		held := f.inject(step("x", row.action, row.args, onePod))
		bitten := time.Since(began)
		if bit := f.at(history.FaultBit); !strings.Contains(bit.Proof, row.bit) {
			t.Errorf("bit by %q, want %q", bit.Proof, row.bit)
		}
		began = time.Now()
		if held.Step.Lasting {
			f.must(f.keeper.Heal(f.ctx, "x"))
		}
		f.healed(held)
		t.Logf("bit after %s, healed after %s", bitten.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		if healed := f.at(history.FaultHealed); !strings.Contains(healed.Proof, row.healed) {
			t.Errorf("healed by %q, want %q", healed.Proof, row.healed)
		}
		s.ready("web", 3)
	})
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

// apiOnly is a cluster of whose nodes nothing is known but what the API tells.
type apiOnly struct{ clusters.Cluster }

// TestE2EChaosSignalByExec: without a way to the nodes the signal is sent by a command in the container.
func TestE2EChaosSignalByExec(t *testing.T) {
	atOnce(t, []string{"TERM", "QUIT", "HUP"}, func(s string) string { return s }, func(t *testing.T, signal string) {
		s := newSpace(context.WithoutCancel(t.Context()), t, shared)
		s.apply(served)
		s.ready("web", 3)
		f := newFaults(s)
		f.keeper.World.Cluster = apiOnly{s.c}
		f.healed(f.inject(step("x", "containerSignal", scenarios.Args{"signal": signal}, onePod)))
		if bit := f.at(history.FaultBit).Proof; !strings.Contains(bit, "ended with exit status ") {
			t.Errorf("bit by %q", bit)
		}
		_, err := f.keeper.Inject(s.ctx, step("y", "containerSignal", scenarios.Args{"signal": "KILL"}, onePod), 0)
		if !errors.Is(err, chaos.ErrUnavailable) || !strings.Contains(err.Error(), "does not reach a container's main process") {
			t.Errorf("KILL from inside: %v", err)
		}
	})
}

// TestE2EChaosNoLeader takes the leader from a real etcd of three members.
func TestE2EChaosNoLeader(t *testing.T) {
	s := newSpace(context.WithoutCancel(t.Context()), t, shared)
	dir := t.TempDir()
	s.must(os.Chmod(dir, 0o755))
	program, err := os.ReadFile(provider.Kubelite) // which has an etcd in it
	s.must(err)
	s.must(os.WriteFile(filepath.Join(dir, "kubelite"), program, 0o755))
	s.must(os.WriteFile(filepath.Join(dir, "image.yaml"), []byte("mountPath: /opt/etcd\nentrypoint: [/opt/etcd/kubelite, etcd]\n"), 0o644))
	s.must(s.c.(clusters.ImageAdder).AddImage(s.ctx, clusters.Image{Name: "shakedown.dev/test/etcd", Source: "host:" + dir}))
	s.apply(members)
	s.ready("etcd", 3)
	f := newFaults(s)
	f.keeper.World.Labels["etcd"] = "app=etcd"
	leader, err := f.keeper.World.FindLeader(s.ctx, "etcd")
	if err != nil || leader == "" {
		t.Fatalf("leader %q: %v", leader, err)
	}
	f.inject(step("x", "backendFailure", scenarios.Args{"how": "noLeader"}, scenarios.Selection{Component: "etcd", All: true}))
	if bit := f.at(history.FaultBit).Proof; !strings.Contains(bit, " dropped on node") || !strings.Contains(bit, "say etcd_server_has_leader 0") {
		t.Errorf("bit by %q", bit)
	}
	f.must(f.keeper.Heal(s.ctx, "x"))
	if healed := f.at(history.FaultHealed).Proof; !strings.Contains(healed, "say etcd_server_has_leader 1") {
		t.Errorf("healed by %q", healed)
	}
}

const members = `
apiVersion: v1
kind: Service
metadata: {name: etcd}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: etcd}, ports: [{name: client, port: 2379}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: etcd}
spec:
  replicas: 3
  serviceName: etcd
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: etcd}}
  template:
    metadata: {labels: {app: etcd}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: etcd
        image: shakedown.dev/test/etcd:1
        env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        args:
        - --name=$(NAME)
        - --data-dir=/tmp/etcd
        - --unsafe-no-fsync
        - --listen-client-urls=http://0.0.0.0:2379
        - --advertise-client-urls=http://$(NAME).etcd:2379
        - --listen-peer-urls=http://0.0.0.0:2380
        - --initial-advertise-peer-urls=http://$(NAME).etcd:2380
        - --initial-cluster=etcd-0=http://etcd-0.etcd:2380,etcd-1=http://etcd-1.etcd:2380,etcd-2=http://etcd-2.etcd:2380
        readinessProbe: {httpGet: {path: /health, port: 2379}, periodSeconds: 1}
`
