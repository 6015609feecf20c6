package sshtest

import (
	"context"
	"crypto/tls"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/access"
	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/protostream"
)

// Cluster is the name of the test cluster.
const Cluster = "main"

// Auth is an auth service in memory, shared by the clients it gives.
type Auth struct {
	Users, Hosts *CA

	t  testing.TB
	mu sync.Mutex
	// The following may be changed between calls, through With.
	Config     authclient.ClusterConfig
	Roles      map[string]types.Role
	Down       bool // every call fails with Unavailable
	servers    map[string]types.Server
	events     []events.AuditEvent
	recordings map[string][]events.AuditEvent
	uploads    map[string][]byte
	trackers   map[string]types.SessionTracker
	streams    map[string]*Stream
}

// NewAuth makes an auth with a role "load" that may log in anywhere as root and as the user of this process.
func NewAuth(t testing.TB, logins ...string) *Auth {
	role, err := types.NewRoleV3("load", types.RoleSpecV5{
		Options: types.RoleOptions{ForwardAgent: true},
		Allow:   types.RoleConditions{Logins: append([]string{"root"}, logins...), NodeLabels: types.Labels{"*": {"*"}}, KubernetesLabels: types.Labels{"*": {"*"}}, KubeGroups: []string{"system:masters"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Auth{
		Users: NewCA(t), Hosts: NewCA(t), t: t,
		Config: authclient.ClusterConfig{Cluster: Cluster, SessionRecording: "node", KeepAlive: time.Minute, KeepAliveMax: 3, ProxyChecksHosts: true},
		Roles:  map[string]types.Role{"load": role}, servers: map[string]types.Server{}, recordings: map[string][]events.AuditEvent{}, uploads: map[string][]byte{},
		trackers: map[string]types.SessionTracker{}, streams: map[string]*Stream{},
	}
}

// With changes the auth's state.
func (a *Auth) With(change func(*Auth)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
}

// Events lists the audit events so far, of these types if any are given.
func (a *Auth) Events(kinds ...string) []events.AuditEvent {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []events.AuditEvent
	for _, e := range a.events {
		if len(kinds) == 0 || slices.Contains(kinds, e.GetType()) {
			out = append(out, e)
		}
	}
	return out
}

// Recording is a finished recording; nil if there is none.
func (a *Auth) Recording(session string) []events.AuditEvent {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.recordings[session]
}

// Trackers counts the trackers in a state.
func (a *Auth) Trackers(state types.SessionState) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, t := range a.trackers {
		if t.GetState() == state {
			n++
		}
	}
	return n
}

// Client joins a host. role is Node, Proxy or Kube.
func (a *Auth) Client(uuid, name string, role types.SystemRole) authclient.Client {
	return &client{auth: a, id: &authclient.Identity{HostUUID: uuid, NodeName: name, Cluster: Cluster, Role: role, SSH: a.Hosts.Host(uuid, Cluster, string(role), name)}}
}

type client struct {
	auth *Auth
	id   *authclient.Identity
}

var _ authclient.Client = (*client)(nil)

// lock takes the auth's lock, or fails as an auth that is away.
func (c *client) lock() (func(), error) {
	c.auth.mu.Lock()
	if c.auth.Down {
		c.auth.mu.Unlock()
		return nil, status.Error(codes.Unavailable, "auth is away")
	}
	return c.auth.mu.Unlock, nil
}

func (c *client) Identity() *authclient.Identity { return c.id }

func (c *client) Authorities(context.Context) (*authclient.Authorities, error) {
	return &authclient.Authorities{UserSSH: c.auth.Users.Keys(), HostSSH: c.auth.Hosts.Keys(), UserTLS: c.auth.Users.Pool(), HostTLS: c.auth.Hosts.Pool()}, nil
}

func (c *client) ClusterConfig(context.Context) (*authclient.ClusterConfig, error) {
	unlock, err := c.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	cfg := c.auth.Config
	return &cfg, nil
}

func (c *client) Access(_ context.Context, roles []string, traits map[string][]string) (*access.Checker, error) {
	c.auth.mu.Lock()
	defer c.auth.mu.Unlock()
	checker := &access.Checker{Traits: traits}
	for _, name := range roles {
		role, ok := c.auth.Roles[name]
		if !ok {
			return nil, status.Errorf(codes.NotFound, "role %s is not found", name)
		}
		checker.Roles = append(checker.Roles, role)
	}
	return checker, nil
}

func (c *client) UpsertServer(_ context.Context, s types.Server) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	c.auth.servers[s.GetKind()+"/"+s.GetName()] = s
	return nil
}

func (c *client) DeleteServer(_ context.Context, kind, name string) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	delete(c.auth.servers, kind+"/"+name)
	return nil
}

func (c *client) Servers(_ context.Context, kind string) ([]types.Server, error) {
	unlock, err := c.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var out []types.Server
	for _, s := range c.auth.servers {
		if s.GetKind() == kind {
			out = append(out, s)
		}
	}
	return out, nil
}

func (c *client) Emit(_ context.Context, e events.AuditEvent) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	c.auth.events = append(c.auth.events, e)
	return nil
}

func (c *client) UploadRecording(ctx context.Context, session string, r io.Reader) error {
	dec := protostream.NewDecoder(r)
	var list []events.AuditEvent
	for {
		e, err := dec.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		list = append(list, e)
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	c.auth.store(session, list)
	return nil
}

// store must be called with the lock held.
func (a *Auth) store(session string, list []events.AuditEvent) {
	a.recordings[session] = list
	a.events = append(a.events, &events.SessionUpload{
		Metadata:        events.Metadata{Type: "session.upload", Code: "T2005I", ClusterName: Cluster},
		SessionMetadata: events.SessionMetadata{SessionID: session},
	})
}

func (c *client) Playback(_ context.Context, session string, yield func(events.AuditEvent) error) error {
	list := c.auth.Recording(session)
	if list == nil {
		return status.Error(codes.NotFound, "no recording")
	}
	for _, e := range list {
		if err := yield(e); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) SignHost(_ context.Context, key ssh.PublicKey, principals []string) (*ssh.Certificate, error) {
	return c.auth.Hosts.sign(key, principals)
}

func (c *client) CreateTracker(_ context.Context, t types.SessionTracker) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	c.auth.trackers[t.GetSessionID()] = t
	return nil
}

func (c *client) Tracker(_ context.Context, session string) (types.SessionTracker, error) {
	unlock, err := c.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	t, ok := c.auth.trackers[session]
	if !ok || t.Expiry().Before(time.Now()) {
		return nil, status.Error(codes.NotFound, "session tracker is not found")
	}
	return t, nil
}

func (c *client) RefreshTracker(_ context.Context, session string, expires time.Time) error {
	return c.change(session, func(t types.SessionTracker) { t.SetExpiry(expires) })
}

func (c *client) SetTrackerState(_ context.Context, session string, state types.SessionState) error {
	return c.change(session, func(t types.SessionTracker) { _ = t.SetState(state) })
}

func (c *client) change(session string, f func(types.SessionTracker)) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	t, ok := c.auth.trackers[session]
	if !ok {
		return status.Error(codes.NotFound, "session tracker is not found")
	}
	f(t)
	return nil
}

func (c *client) RemoveTracker(_ context.Context, session string) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	delete(c.auth.trackers, session)
	return nil
}

func (c *client) DialAuth(context.Context) (io.ReadWriteCloser, error) {
	return nil, status.Error(codes.Unimplemented, "this auth has no port")
}

func (c *client) Close() error { return nil }

// TLSIdentity gives the client's identity a TLS certificate.
func TLSIdentity(c authclient.Client, cert tls.Certificate) { c.(*client).id.TLS = cert }
