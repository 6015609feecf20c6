package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

const serviceName = "shakedown.standin.Agent"

// JoinRequest asks for a host's certificates. Keys are public.
type JoinRequest struct {
	Method     string   `json:"method"` // token or kubernetes
	Token      string   `json:"token"`  // the token, or the name of the kubernetes token
	IDToken    string   `json:"id_token,omitempty"`
	HostUUID   string   `json:"host_uuid"`
	NodeName   string   `json:"node_name"`
	Role       string   `json:"role"`
	Principals []string `json:"principals,omitempty"`
	SSHKey     []byte   `json:"ssh_key"` // authorized_keys form
	TLSKey     []byte   `json:"tls_key"` // PKIX, DER
}

// JoinResponse is the new member's certificates and whom to trust.
type JoinResponse struct {
	Cluster     string      `json:"cluster"`
	SSHCert     []byte      `json:"ssh_cert"`
	TLSCert     []byte      `json:"tls_cert"`
	Authorities Authorities `json:"authorities"`
}

// Authorities are the public halves: SSH in authorized_keys form, TLS as PEM.
type Authorities struct {
	UserSSH [][]byte `json:"user_ssh"`
	HostSSH [][]byte `json:"host_ssh"`
	UserTLS []byte   `json:"user_tls"`
	HostTLS []byte   `json:"host_tls"`
}

// ServersRequest names a kind of server, and one of them for deleting.
type ServersRequest struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
}

// Servers are types.ServerV2 messages.
type Servers struct {
	Items [][]byte `json:"items"`
}

// HostCertRequest asks for a host certificate with other principals.
type HostCertRequest struct {
	SSHKey     []byte   `json:"ssh_key"`
	Principals []string `json:"principals"`
}

// HostCert is an SSH host certificate in authorized_keys form.
type HostCert struct {
	Cert []byte `json:"cert"`
}

// SignUserRequest asks for a user's certificates; for tctl alone.
type SignUserRequest struct {
	User        string        `json:"user"`
	TTL         time.Duration `json:"ttl"`
	SSHKey      []byte        `json:"ssh_key"`
	TLSKey      []byte        `json:"tls_key"`
	KubeCluster string        `json:"kube_cluster,omitempty"`
	KubeOnly    bool          `json:"kube_only,omitempty"`
}

// SignUserResponse is the certificates and how long they are good for.
type SignUserResponse struct {
	SSHCert []byte    `json:"ssh_cert"`
	TLSCert []byte    `json:"tls_cert"`
	Expires time.Time `json:"expires"`
}

// Resource is a resource as `tctl create` and `tctl get` see it, in JSON.
type Resource struct {
	Kind  string   `json:"kind"`
	Name  string   `json:"name,omitempty"`
	Force bool     `json:"force,omitempty"`
	Items [][]byte `json:"items,omitempty"`
}

// ClusterConfig is what the auth's configuration file says to every member.
type ClusterConfig struct {
	Cluster          string        `json:"cluster"`
	AuthVersion      string        `json:"auth_version"`
	SessionRecording string        `json:"session_recording"` // node, node-sync, proxy, proxy-sync, off
	ListenerMode     string        `json:"listener_mode"`     // separate, multiplex
	RoutingStrategy  string        `json:"routing_strategy"`  // unambiguous_match, most_recent
	ProxyChecksHosts bool          `json:"proxy_checks_host_keys"`
	KeepAlive        time.Duration `json:"keep_alive_interval"`
	KeepAliveMax     int64         `json:"keep_alive_count_max"`
	IdleTimeout      time.Duration `json:"client_idle_timeout"`
	SecondFactor     string        `json:"second_factor"`
	AuthType         string        `json:"auth_type"`
}

// Empty carries nothing.
type Empty struct{}

// Chunk is a piece of a recording on its way to the auth. The first carries the
// session's ID and no data.
type Chunk struct {
	Data []byte
}

// Marshal makes the bytes the message, without an envelope.
func (c *Chunk) Marshal() ([]byte, error) { return c.Data, nil }

// Unmarshal is the reverse of Marshal.
func (c *Chunk) Unmarshal(b []byte) error {
	c.Data = append([]byte(nil), b...)
	return nil
}

// Agent is the private service. Join alone may be called without a certificate.
type Agent interface {
	Join(context.Context, *JoinRequest) (*JoinResponse, error)
	Authorities(context.Context, *Empty) (*Authorities, error)
	ClusterConfig(context.Context, *Empty) (*ClusterConfig, error)
	Servers(context.Context, *ServersRequest) (*Servers, error)
	UpsertServers(context.Context, *Servers) (*Empty, error)
	DeleteServer(context.Context, *ServersRequest) (*Empty, error)
	SignHost(context.Context, *HostCertRequest) (*HostCert, error)
	SignUser(context.Context, *SignUserRequest) (*SignUserResponse, error)
	CreateResource(context.Context, *Resource) (*Empty, error)
	GetResources(context.Context, *Resource) (*Resource, error)
	DeleteResource(context.Context, *Resource) (*Empty, error)
	Upload(UploadStream) error
}

// UploadStream is the auth's side of an upload.
type UploadStream interface {
	Context() context.Context
	RecvMsg(any) error
	SendMsg(any) error
}

// JoinMethod is the full name of the one method that needs no certificate.
const JoinMethod = "/" + serviceName + "/Join"

// Desc describes the private service to gRPC.
func Desc() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*Agent)(nil),
		Methods: []grpc.MethodDesc{
			method("Join", Agent.Join), method("Authorities", Agent.Authorities),
			method("ClusterConfig", Agent.ClusterConfig), method("Servers", Agent.Servers),
			method("UpsertServers", Agent.UpsertServers), method("DeleteServer", Agent.DeleteServer),
			method("SignHost", Agent.SignHost), method("SignUser", Agent.SignUser),
			method("CreateResource", Agent.CreateResource), method("GetResources", Agent.GetResources),
			method("DeleteResource", Agent.DeleteResource),
		},
		Streams: []grpc.StreamDesc{uploadDesc()},
	}
}

func uploadDesc() grpc.StreamDesc {
	return grpc.StreamDesc{
		StreamName: "Upload", ClientStreams: true,
		Handler: func(srv any, stream grpc.ServerStream) error { return srv.(Agent).Upload(stream) },
	}
}

func method[Req, Resp any](name string, call func(Agent, context.Context, *Req) (*Resp, error)) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			req := new(Req)
			if err := decode(req); err != nil {
				return nil, err
			}
			if interceptor == nil {
				return call(srv.(Agent), ctx, req)
			}
			info := &grpc.UnaryServerInfo{Server: srv, FullMethod: "/" + serviceName + "/" + name}
			return interceptor(ctx, req, info, func(ctx context.Context, req any) (any, error) {
				return call(srv.(Agent), ctx, req.(*Req))
			})
		},
	}
}

// Call makes a unary call of the private service.
func Call[Resp any](ctx context.Context, conn grpc.ClientConnInterface, name string, req any) (*Resp, error) {
	resp := new(Resp)
	if err := conn.Invoke(ctx, "/"+serviceName+"/"+name, req, resp, grpc.ForceCodecV2(Codec{})); err != nil {
		return nil, err
	}
	return resp, nil
}

// Upload opens the upload stream.
func Upload(ctx context.Context, conn grpc.ClientConnInterface) (grpc.ClientStream, error) {
	desc := uploadDesc()
	return conn.NewStream(ctx, &desc, "/"+serviceName+"/Upload", grpc.ForceCodecV2(Codec{}))
}
