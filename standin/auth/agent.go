package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gravitational/teleport/api/types"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/rpc"
	"shakedown.dev/shakedown/standin/state"
)

// agent is the private service.
type agent struct{ *Auth }

var _ rpc.Agent = agent{}

func (a agent) Authorities(ctx context.Context, _ *rpc.Empty) (*rpc.Authorities, error) {
	if _, err := a.caller(ctx); err != nil {
		return nil, err
	}
	all := a.authorities()
	return &all, nil
}

func (a agent) ClusterConfig(ctx context.Context, _ *rpc.Empty) (*rpc.ClusterConfig, error) {
	if _, err := a.caller(ctx); err != nil {
		return nil, err
	}
	c := a.Config.Auth
	return &rpc.ClusterConfig{
		Cluster: a.cluster, AuthVersion: a.Behaviour.Version, SessionRecording: c.SessionRecording,
		ListenerMode: c.ProxyListenerMode, RoutingStrategy: c.RoutingStrategy,
		ProxyChecksHosts: c.ProxyChecksHosts == nil || *c.ProxyChecksHosts,
		KeepAlive:        max(c.KeepAliveInterval, 0), KeepAliveMax: c.KeepAliveCountMax, IdleTimeout: c.IdleTimeout,
		SecondFactor: c.Authentication.SecondFactor, AuthType: c.Authentication.Type,
	}, nil
}

func (a agent) Servers(ctx context.Context, r *rpc.ServersRequest) (*rpc.Servers, error) {
	if _, err := a.hostOnly(ctx); err != nil {
		return nil, err
	}
	servers, err := a.servers(ctx, r.Kind)
	if err != nil {
		return nil, grpcError(err)
	}
	out := &rpc.Servers{}
	for _, s := range servers {
		b, err := s.Marshal()
		if err != nil {
			return nil, grpcError(err)
		}
		out.Items = append(out.Items, b)
	}
	return out, nil
}

func (a agent) UpsertServers(ctx context.Context, r *rpc.Servers) (*rpc.Empty, error) {
	if _, err := a.hostOnly(ctx); err != nil {
		return nil, err
	}
	for _, b := range r.Items {
		s := new(types.ServerV2)
		if err := s.Unmarshal(b); err != nil {
			return nil, grpcError(fmt.Errorf("server: %w%w", err, silent{errBadRequest}))
		}
		if err := a.upsertServer(ctx, s); err != nil {
			return nil, grpcError(err)
		}
	}
	return &rpc.Empty{}, nil
}

func (a agent) DeleteServer(ctx context.Context, r *rpc.ServersRequest) (*rpc.Empty, error) {
	if _, err := a.hostOnly(ctx); err != nil {
		return nil, err
	}
	return &rpc.Empty{}, grpcError(a.deleteServer(ctx, r.Kind, r.Name))
}

// SignHost signs a host key for a proxy that records sessions itself.
func (a agent) SignHost(ctx context.Context, r *rpc.HostCertRequest) (*rpc.HostCert, error) {
	if _, err := a.hostOnly(ctx, types.RoleProxy); err != nil {
		return nil, err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(r.SSHKey)
	if err != nil {
		return nil, grpcError(fmt.Errorf("SSH key: %w%w", err, silent{errBadRequest}))
	}
	cert, err := a.host.SignHostNames(key, string(types.RoleNode), r.Principals)
	if err != nil {
		return nil, grpcError(err)
	}
	return &rpc.HostCert{Cert: ssh.MarshalAuthorizedKey(cert)}, nil
}

func (a agent) CreateResource(ctx context.Context, r *rpc.Resource) (*rpc.Empty, error) {
	c, err := a.admin(ctx, strings.ToLower(r.Kind), types.VerbCreate)
	if err != nil {
		return nil, err
	}
	for _, raw := range r.Items {
		if err := a.create(ctx, c.name, raw, r.Force); err != nil {
			return nil, grpcError(err)
		}
	}
	return &rpc.Empty{}, nil
}

func (a agent) DeleteResource(ctx context.Context, r *rpc.Resource) (*rpc.Empty, error) {
	c, err := a.admin(ctx, strings.ToLower(r.Kind), types.VerbDelete)
	if err != nil {
		return nil, err
	}
	return &rpc.Empty{}, grpcError(a.remove(ctx, c.name, r.Kind, r.Name))
}

// GetResources returns the resources of a kind, as JSON.
func (a agent) GetResources(ctx context.Context, r *rpc.Resource) (*rpc.Resource, error) {
	if _, err := a.admin(ctx, strings.ToLower(r.Kind), types.VerbRead); err != nil {
		return nil, err
	}
	items, err := a.resources(ctx, strings.ToLower(r.Kind))
	if err != nil {
		return nil, grpcError(err)
	}
	out := &rpc.Resource{Kind: r.Kind, Name: r.Name}
	for _, item := range items {
		if r.Name != "" && item.name != r.Name {
			continue
		}
		b, err := json.Marshal(item.value)
		if err != nil {
			return nil, grpcError(err)
		}
		out.Items = append(out.Items, b)
	}
	if r.Name != "" && len(out.Items) == 0 {
		return nil, grpcError(describe(state.ErrNotFound, "%s %q is not found", r.Kind, r.Name))
	}
	return out, nil
}

type named struct {
	name  string
	value any
}

func (a *Auth) resources(ctx context.Context, kind string) ([]named, error) {
	switch strings.TrimSuffix(kind, "s") {
	case "role":
		return gather(a.roles, (*types.RoleV5).GetName)(ctx)
	case "user":
		return gather(a.users, (*types.UserV2).GetName)(ctx)
	case "token":
		return gather(a.tokens, func(t *Token) string { return t.Metadata.Name })(ctx)
	case "session_tracker":
		return gather(a.trackers, (*types.SessionTrackerV1).GetSessionID)(ctx)
	case "node", "proxie", "proxy", "auth_server", "auth", "kube_service", "kube_server":
		serverKind := map[string]string{
			"node": types.KindNode, "proxie": types.KindProxy, "proxy": types.KindProxy,
			"auth_server": types.KindAuthServer, "auth": types.KindAuthServer,
			"kube_service": types.KindKubeService, "kube_server": types.KindKubeService,
		}[strings.TrimSuffix(kind, "s")]
		return gather(func(ctx context.Context) ([]*types.ServerV2, error) { return a.servers(ctx, serverKind) }, (*types.ServerV2).GetName)(ctx)
	}
	return nil, fmt.Errorf("getting %q is not supported, supported are %s%w", kind, strings.Join(kinds(), ", "), silent{errBadRequest})
}

func kinds() []string {
	return slices.Sorted(slices.Values([]string{"role", "user", "token", "node", "proxy", "auth_server", "kube_service", "session_tracker"}))
}

func gather[T any](list func(context.Context) ([]T, error), name func(T) string) func(context.Context) ([]named, error) {
	return func(ctx context.Context) ([]named, error) {
		items, err := list(ctx)
		out := make([]named, 0, len(items))
		for _, item := range items {
			out = append(out, named{name(item), item})
		}
		return out, err
	}
}
