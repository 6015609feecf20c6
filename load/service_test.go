package load

import (
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/identity"
	tssh "shakedown.dev/shakedown/teleport/ssh"
	"shakedown.dev/shakedown/teleport/ssh/sshtest"
)

// TestThroughService: the proxy behind a Service is known by its host certificate, or not at all.
func TestThroughService(t *testing.T) {
	tests := []struct {
		because string
		names   []string
		through string
		uid     string
		how     string
	}{
		{"the certificate has the pod's name", []string{"some-uuid", "proxy-b"}, "service", "b", "server"},
		{"and the cluster's behind it", []string{"proxy-c.lab"}, "service", "c", "server"},
		{"a name that only begins like it is another's", []string{"proxy-bb"}, "service", "", "service"},
		{"the pod was dialled by its address", []string{"proxy-c"}, "", "a", "dialled"},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			a, err := sshtest.NewAuthority("lab")
			if err != nil {
				t.Fatal(err)
			}
			server, err := sshtest.Start(a, tt.names...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			server.Shell = terminals(func(int) string { return "" })
			id, _, err := a.Identity("load-0", time.Now().Add(time.Hour), "root")
			if err != nil {
				t.Fatal(err)
			}
			p := plan(scenarios.Session{Behaviour: "interactive", Length: scenarios.Always(100 * time.Millisecond), Pace: scenarios.Always(20 * time.Millisecond)},
				scenarios.Arrival{Closed: &scenarios.Closed{Held: 1, Think: scenarios.Always(time.Hour)}})
			p.Streams[0].Through = tt.through
			targets := someTargets()
			targets.proxies[0].SSH = tssh.Proxy{Address: server.Address, Name: "localhost"}
			targets.proxies[1].Ready = false
			targets.service = Proxy{SSH: tssh.Proxy{Address: server.Address, Name: "localhost"}}
			targets.agents = []history.Agent{{UUID: sshtest.NodeID}}
			m := newMemory()
			e, err := New(Config{Plan: p, History: m, Targets: targets, Users: []*identity.Identity{id}})
			if err != nil {
				t.Fatal(err)
			}
			e.Start(t.Context())
			waitFor(t, func() bool { return e.Stats().Ended == 1 })
			e.Stop(t.Context())
			s := payloads[history.Session](m)[0]
			o := payloads[history.SessionOpened](m)[0]
			if s.Class != history.Clean || s.Proxy.UID != tt.uid || s.ProxyHow != tt.how || o.Proxy.UID != tt.uid {
				t.Errorf("%s through %q, known by %s; opened through %q (%s)", s.Class, s.Proxy.UID, s.ProxyHow, o.Proxy.UID, s.Reason)
			}
		})
	}
}
