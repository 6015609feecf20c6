// Package authclient is how the proxy, the node and the Kubernetes service talk
// to the auth: joining, heartbeats, authorities, audit events, recordings and
// session trackers. It is the stand-in's own protocol; clients from outside use
// the real gRPC API.
package authclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"time"

	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/access"
	"shakedown.dev/shakedown/standin/rpc"
)

// Client is a connection to the auth made with one host identity. It reconnects
// by itself; a call made while the auth is away fails with a gRPC Unavailable.
type Client interface {
	// Identity is who this client joined as.
	Identity() *Identity
	// Authorities are the keys to trust; cached for a short time.
	Authorities(ctx context.Context) (*Authorities, error)
	// ClusterConfig is what the auth's configuration file says to all. It is asked
	// for each time; Authorities, Access and Servers answer with the last known
	// value while the auth is away.
	ClusterConfig(ctx context.Context) (*ClusterConfig, error)
	// Access resolves role names and traits from a user's certificate.
	Access(ctx context.Context, roles []string, traits map[string][]string) (*access.Checker, error)

	// UpsertServer announces a node, proxy or Kubernetes service (by
	// types.Server.GetKind) until its Expiry. A Kubernetes service carries its
	// clusters in SetKubernetesClusters, as in the API of 10 to 12.
	UpsertServer(ctx context.Context, server types.Server) error
	DeleteServer(ctx context.Context, kind, name string) error
	// Servers lists types.KindNode, KindProxy, KindKubeService or KindAuthServer;
	// the answer may be a quarter of a second old.
	Servers(ctx context.Context, kind string) ([]types.Server, error)

	// Emit stores one audit event outside of a recording.
	Emit(ctx context.Context, event events.AuditEvent) error
	// CreateStream opens a synchronous recording (modes node-sync, proxy-sync).
	CreateStream(ctx context.Context, sessionID string) (Stream, error)
	// ResumeStream goes on with the upload of a broken stream; events that were
	// not acknowledged have to be sent again.
	ResumeStream(ctx context.Context, sessionID, uploadID string) (Stream, error)
	// UploadRecording stores a finished recording (protostream format) and emits
	// session.upload. A recording that is there already is replaced.
	UploadRecording(ctx context.Context, sessionID string, recording io.Reader) error

	// Playback hands every event of a stored recording to yield, in order; it
	// fails with gRPC NotFound until the recording is there. Made by a host, it
	// leaves no session.recording.access event.
	Playback(ctx context.Context, sessionID string, yield func(events.AuditEvent) error) error

	// SignHost signs a host key for principals (proxy recording modes only).
	SignHost(ctx context.Context, key ssh.PublicKey, principals []string) (*ssh.Certificate, error)

	CreateTracker(ctx context.Context, tracker types.SessionTracker) error
	// Tracker fails with gRPC NotFound when it is gone.
	Tracker(ctx context.Context, sessionID string) (types.SessionTracker, error)
	// RefreshTracker moves the tracker's expiry.
	RefreshTracker(ctx context.Context, sessionID string, expires time.Time) error
	SetTrackerState(ctx context.Context, sessionID string, state types.SessionState) error
	RemoveTracker(ctx context.Context, sessionID string) error

	// DialAuth opens a raw TCP connection to an auth (for the proxy's
	// teleport-auth@ forwarding and the subsystem `proxy:@cluster`).
	DialAuth(ctx context.Context) (io.ReadWriteCloser, error)
	Close() error
}

// Stream is a synchronous recording on its way to the auth.
type Stream interface {
	// UploadID names the upload, for ResumeStream.
	UploadID() string
	Send(ctx context.Context, event events.AuditEvent) error
	// Acked is the index of the last event that the auth has stored, or -1.
	Acked() int64
	// Complete finishes the recording; the auth emits session.upload.
	Complete(ctx context.Context) error
	// Close leaves the upload unfinished, for ResumeStream or the completer.
	Close() error
	// Done is closed when the stream broke or was finished; Err says why.
	Done() <-chan struct{}
	Err() error
}

// Identity is a host's place in the cluster.
type Identity struct {
	HostUUID string
	NodeName string
	Cluster  string
	Role     types.SystemRole
	// SSH is the host key with its certificate. Principals: UUID.cluster, UUID,
	// node name.cluster, node name, localhost, 127.0.0.1, ::1, and a proxy's
	// public addresses.
	SSH ssh.Signer
	// TLS is the host certificate; the subject's common name is UUID.cluster,
	// DNS names are as the SSH principals. Good for client and server.
	TLS tls.Certificate

	hostTLS, keyPEM, certPEM []byte
}

// Authorities are the cluster's certificate authorities.
type Authorities struct {
	UserSSH []ssh.PublicKey
	HostSSH []ssh.PublicKey
	UserTLS *x509.CertPool
	HostTLS *x509.CertPool
	// HostTLSPEM is the host authority, for kubeconfigs and identity files.
	HostTLSPEM []byte
	// UserTLSPEM is the user authority.
	UserTLSPEM []byte
}

// ClusterConfig is what the auth's configuration file says to every member.
type ClusterConfig = rpc.ClusterConfig
