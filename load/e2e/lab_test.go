// Package e2e runs the load engine against a stand-in of processes on loopback.
package e2e

import (
	"bytes"
	"context"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load"
	"shakedown.dev/shakedown/load/recordings"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/audit"
	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/local"
	"shakedown.dev/shakedown/teleport/ssh"
	"shakedown.dev/shakedown/teleport/tctl"
)

// programsEnv names a folder with the programs teleport and tctl, to try real ones instead of the stand-in.
const programsEnv = "SHAKEDOWN_TELEPORT_PROGRAMS"

// programs builds the stand-in and names it as the programs it stands in for.
func programs(t testing.TB) string {
	t.Helper()
	if folder := os.Getenv(programsEnv); folder != "" {
		return folder
	}
	folder := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "standin"), "shakedown.dev/shakedown/standin/cmd/standin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the stand-in: %v\n%s", err, out)
	}
	for _, name := range []string{"teleport", "tctl"} {
		if err := os.Symlink("standin", filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// lab is a cluster with one proxy, seen as a pod.
type lab struct {
	*local.Cluster
	folder   string
	users    []*identity.Identity
	agents   []history.Agent
	controls []load.Control
}

// start brings up a cluster with two nodes that are reached by tunnels, and one that is dialled, for the control arm.
func start(t testing.TB, mode string, env ...string) *lab {
	t.Helper()
	folder, err := os.MkdirTemp("", "load") // short: there are sockets in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	env = append([]string{"STANDIN_SHELL=echo", "STANDIN_TIME_FACTOR=20"}, env...)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := local.Start(ctx, local.Options{Programs: programs(t), Folder: folder, Nodes: 2, Direct: true, Recording: mode, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	l := &lab{Cluster: c, folder: folder}
	l.enrol(t, ctx, strings.HasPrefix(mode, "proxy"))
	return l
}

// enrol makes users, and waits until every node can be dialled.
func (l *lab) enrol(t testing.TB, ctx context.Context, agent bool) {
	t.Helper()
	if err := l.Tctl.EnsureRole(ctx, tctl.Role{Name: "load", Logins: []string{"root"}}); err != nil {
		t.Fatal(err)
	}
	users, err := l.Tctl.EnsureUsers(ctx, "load", 2, "load")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range users {
		id, err := l.Tctl.Sign(ctx, u, time.Hour, "")
		if err != nil {
			t.Fatal(err)
		}
		l.users = append(l.users, id)
	}
	client, err := ssh.New(ssh.Options{Identity: l.users[0], ForwardAgent: agent})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := l.Tctl.Nodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		agent := history.Agent{UUID: n.UUID, Host: n.Host, Pod: history.PodRef{Name: n.Host, UID: n.Host, Component: "agent"}}
		if n.Host == "direct" {
			l.controls = append(l.controls, load.DirectNode(client, l.Direct, agent))
			continue
		}
		l.agents = append(l.agents, agent)
		l.dialable(t, ctx, client, n.UUID)
	}
}

func (l *lab) dialable(t testing.TB, ctx context.Context, client *ssh.Client, node string) {
	t.Helper()
	for {
		conn, err := client.Connect(ctx, ssh.Proxy{Address: l.Web}, ssh.Target{Node: node})
		if err == nil {
			conn.Close()
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (l *lab) Proxies() []load.Proxy {
	return []load.Proxy{{Pod: history.PodRef{Name: "proxy", UID: "proxy-uid", Component: "proxy"}, Ready: true, SSH: ssh.Proxy{Address: l.Web}}}
}
func (l *lab) Service() load.Proxy      { return load.Proxy{SSH: ssh.Proxy{Address: l.Web}} }
func (l *lab) Agents() []history.Agent  { return l.agents }
func (l *lab) KubePods() []load.KubePod { return nil }
func (l *lab) Controls() []load.Control { return l.controls }

func (l *lab) log(t testing.TB) *audit.Log {
	t.Helper()
	log, err := audit.Open(audit.Options{Address: l.AuthAPI, Identity: func() *identity.Identity { return l.users[0] }, Patience: 5 * time.Second, Rate: 200})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

// book is a history in memory.
type book struct {
	*history.Recorder
	text bytes.Buffer
}

func newBook() *book {
	b := &book{}
	b.Recorder = history.NewRecorder(&b.text, history.Options{})
	return b
}

// events closes the history and reads it.
func (b *book) events(t testing.TB) []history.Event {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	r := history.NewReader(&b.text)
	var out []history.Event
	for e := range r.Events() {
		out = append(out, e)
	}
	if s := r.Status(); !s.Whole() {
		t.Fatalf("history: %s", s)
	}
	return out
}

func of[P history.Payload](events []history.Event) iter.Seq[P] {
	return func(yield func(P) bool) {
		for _, e := range events {
			if p, ok := e.Data.(P); ok && !yield(p) {
				return
			}
		}
	}
}

// plan is one stream of terminals.
func plan(rate float64, length, pace time.Duration) *scenarios.Plan {
	session := scenarios.Session{
		Kind: scenarios.SSH, Behaviour: "interactive", Length: scenarios.Always(length), Pace: scenarios.Always(pace),
		LineBytes: 64, Keepalive: scenarios.Span(time.Second), Timeout: scenarios.Span(10 * time.Second),
	}
	return &scenarios.Plan{
		Seed: 1,
		Streams: []scenarios.StreamPlan{{
			Stream: scenarios.Stream{
				Name: "terminals", Mix: []scenarios.Weighted{{Weight: 1, Session: session}},
				Arrival: scenarios.Arrival{Open: &scenarios.Open{Distribution: "constant", Legs: []scenarios.Leg{{From: rate, To: rate}}}},
			},
			Seed: 1,
		}},
		Validity: scenarios.Validity{
			LateP99: scenarios.Span(time.Second), Stall: scenarios.Span(5 * time.Second), Gap: scenarios.Span(time.Second),
			Probe: scenarios.Span(time.Second), Control: 1,
		},
	}
}

// run puts the load on the lab for a while, checks the recordings, and gives the history.
func run(t testing.TB, l *lab, p *scenarios.Plan, mode string, lasting, settle time.Duration) ([]history.Event, recordings.Summary) {
	t.Helper()
	b := newBook()
	e, err := load.New(load.Config{Plan: p, History: b, Targets: l, Users: l.users, RecordingMode: mode})
	if err != nil {
		t.Fatal(err)
	}
	e.Start(t.Context())
	time.Sleep(lasting)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e.Stop(ctx)
	summary, err := recordings.Check(t.Context(), recordings.Options{
		Log: l.log(t), History: b, Mode: mode, Settle: settle, Late: settle / 2, Every: 300 * time.Millisecond,
	}, e.Recorded())
	if err != nil {
		t.Fatal(err)
	}
	return b.events(t), summary
}
