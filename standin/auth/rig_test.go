package auth

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"github.com/prometheus/client_golang/prometheus"

	"shakedown.dev/shakedown/standin/audit"
	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/protostream"
)

// rig is an auth on loopback.
type rig struct {
	testing.TB
	auth   *Auth
	server *Server
	faults *faults.Registry
	health *process.Health
}

type option func(*Options, *string)

func scaled(factor float64) option {
	return func(o *Options, _ *string) { o.Scale = process.Scale(factor) }
}
func behaving(name string) option {
	return func(o *Options, _ *string) { o.Behaviour, _ = process.BehaviourByName(name) }
}
func withYAML(yaml string) option { return func(_ *Options, text *string) { *text = yaml } }

const baseYAML = `version: v3
teleport: {nodename: auth, data_dir: %s%s}
auth_service:
  enabled: yes
  listen_addr: 127.0.0.1:0
  cluster_name: test.example.com
  tokens: ["node,proxy:secret"]
proxy_service: {enabled: no}
ssh_service: {enabled: no}
`

func newRig(t testing.TB, rules []faults.Rule, opts ...option) *rig {
	t.Helper()
	r := &rig{TB: t, faults: faults.New(nil, rules...)}
	o := Options{HostUUID: uuid.NewString(), Faults: r.faults, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Scale: 1}
	o.Behaviour, _ = process.BehaviourByName("13-dev")
	extra := ""
	for _, opt := range opts {
		opt(&o, &extra)
	}
	cfg, err := config.Parse("teleport.yaml", fmt.Appendf(nil, baseYAML, t.TempDir(), extra), true)
	if err != nil {
		t.Fatal(err)
	}
	o.Config = cfg
	r.health = process.NewHealth(o.Scale, r.faults)
	o.Heartbeat = r.health.Heartbeat
	if r.auth, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r.server = NewServer(r.auth)
	if err := r.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.server.Close() })
	return r
}

func (r *rig) target() authclient.Target {
	return authclient.Target{Addrs: []string{r.server.Addr().String()}}
}

func (r *rig) join(p authclient.JoinParams) (*authclient.Identity, error) {
	if p.HostUUID == "" {
		p.HostUUID = uuid.NewString()
	}
	if p.Method == "" {
		p.Method = "token"
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	return authclient.Join(ctx, r.target(), p)
}

// node is a joined node's client.
func (r *rig) node() *authclient.Remote {
	r.Helper()
	identity, err := r.join(authclient.JoinParams{Token: "secret", NodeName: "node", Role: types.RoleNode})
	if err != nil {
		r.Fatal(err)
	}
	remote, err := authclient.Connect(r.target(), identity)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = remote.Close() })
	return remote
}

// types lists the audit log's event types, oldest first.
func (r *rig) events(kinds ...string) []events.AuditEvent {
	r.Helper()
	found, _, err := r.auth.log.Search(r.Context(), audit.Query{From: time.Unix(0, 0), To: time.Now().Add(time.Hour), Types: kinds, Limit: 1000})
	if err != nil {
		r.Fatal(err)
	}
	return found
}

// eventually waits for something that another goroutine does.
func (r *rig) eventually(what string, ok func() bool) {
	r.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			r.Fatalf("not in time: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func newSID() string { return uuid.NewString() }

func startEvent(sid string) *events.SessionStart {
	return &events.SessionStart{
		Metadata:        events.Metadata{Type: audit.SessionStart, Code: audit.SessionStartCode, Time: time.Now().UTC()},
		SessionMetadata: events.SessionMetadata{SessionID: sid}, UserMetadata: events.UserMetadata{User: "load", Login: "root"}, TerminalSize: "80:25",
	}
}

func endEvent(sid string) *events.SessionEnd {
	return &events.SessionEnd{
		Metadata:        events.Metadata{Type: audit.SessionEnd, Code: audit.SessionEndCode, Time: time.Now().UTC()},
		SessionMetadata: events.SessionMetadata{SessionID: sid},
	}
}

func printEvent(index int64) *events.SessionPrint {
	return &events.SessionPrint{Metadata: events.Metadata{Type: "print", Index: index, Time: time.Now().UTC()}, Data: fmt.Appendf(nil, "line %d", index)}
}

// recording is a finished recording of n lines.
func recording(t testing.TB, sid string, n int64) io.Reader {
	t.Helper()
	var enc protostream.Encoder
	all := []events.AuditEvent{startEvent(sid)}
	for i := range n {
		all = append(all, printEvent(i+1))
	}
	for _, e := range append(all, endEvent(sid)) {
		if err := enc.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	return bytes.NewReader(enc.Cut(true))
}

func (r *rig) play(remote *authclient.Remote, sid string) (kinds []string, err error) {
	err = remote.Playback(r.Context(), sid, func(e events.AuditEvent) error {
		kinds = append(kinds, e.GetType())
		return nil
	})
	return kinds, err
}
