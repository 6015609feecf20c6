package auth

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// api is the subset of the real AuthService that the stand-in has; every other
// method answers Unimplemented.
type api struct {
	proto.UnimplementedAuthServiceServer
	*Auth
}

// Ping names the cluster and the version, which says that this is a stand-in.
func (s *api) Ping(ctx context.Context, _ *proto.PingRequest) (*proto.PingResponse, error) {
	if _, err := s.caller(ctx); err != nil {
		return nil, err
	}
	resp := &proto.PingResponse{ClusterName: s.cluster, ServerVersion: s.Behaviour.Version, ServerFeatures: &proto.Features{Kubernetes: true}}
	if p, ok := peer.FromContext(ctx); ok {
		resp.RemoteAddr = p.Addr.String()
	}
	if proxies, err := s.servers(ctx, types.KindProxy); err == nil && len(proxies) > 0 {
		resp.ProxyPublicAddr = proxies[0].GetPublicAddr()
	}
	return resp, nil
}

// GetDomainName names the cluster.
func (s *api) GetDomainName(ctx context.Context, _ *emptypb.Empty) (*proto.GetDomainNameResponse, error) {
	if _, err := s.caller(ctx); err != nil {
		return nil, err
	}
	return &proto.GetDomainNameResponse{DomainName: s.cluster}, nil
}

// GetClusterCACert is the host authority's certificate.
func (s *api) GetClusterCACert(ctx context.Context, _ *emptypb.Empty) (*proto.GetClusterCACertResponse, error) {
	if _, err := s.caller(ctx); err != nil {
		return nil, err
	}
	return &proto.GetClusterCACertResponse{TLSCA: s.host.CertPEM}, nil
}

// ListResources lists nodes or Kubernetes services, a page at a time.
func (s *api) ListResources(ctx context.Context, r *proto.ListResourcesRequest) (*proto.ListResourcesResponse, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	kind := r.ResourceType
	if kind != types.KindNode && kind != types.KindKubeService {
		return nil, status.Errorf(codes.Unimplemented, "resource type %q does not support pagination in the stand-in", kind)
	}
	servers, err := s.servers(ctx, kind)
	if err != nil {
		return nil, grpcError(err)
	}
	servers = slices.DeleteFunc(servers, func(n *types.ServerV2) bool { return !c.sees(n) || !matches(n, r) })
	resp := &proto.ListResourcesResponse{}
	if r.NeedTotalCount {
		resp.TotalCount = int32(len(servers))
	}
	for _, n := range servers {
		if n.GetName() < r.StartKey {
			continue
		}
		if r.Limit > 0 && len(resp.Resources) == int(r.Limit) {
			resp.NextKey = n.GetName()
			break
		}
		resp.Resources = append(resp.Resources, paginated(kind, n))
	}
	return resp, nil
}

func paginated(kind string, n *types.ServerV2) *proto.PaginatedResource {
	if kind == types.KindNode {
		return &proto.PaginatedResource{Resource: &proto.PaginatedResource_Node{Node: n}}
	}
	return &proto.PaginatedResource{Resource: &proto.PaginatedResource_KubeService{KubeService: n}}
}

// sees says whether the caller may know of a server.
func (c *caller) sees(n *types.ServerV2) bool {
	if c.access == nil {
		return true
	}
	if n.GetKind() != types.KindNode {
		_, _, err := c.access.Kube(n.GetAllLabels())
		return err == nil
	}
	return c.access.CanSee(n.GetAllLabels())
}

func matches(n *types.ServerV2, r *proto.ListResourcesRequest) bool {
	for key, want := range r.Labels {
		if got, ok := n.GetAllLabels()[key]; !ok || got != want {
			return false
		}
	}
	for _, word := range r.SearchKeywords {
		if !strings.Contains(strings.ToLower(n.GetHostname()+" "+n.GetAddr()+" "+n.GetName()), strings.ToLower(word)) {
			return false
		}
	}
	return true
}

// GetNode returns one node by its UUID.
func (s *api) GetNode(ctx context.Context, r *types.ResourceInNamespaceRequest) (*types.ServerV2, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	servers, err := s.servers(ctx, types.KindNode)
	if err != nil {
		return nil, grpcError(err)
	}
	for _, n := range servers {
		if n.GetName() == r.Name && c.sees(n) {
			return n, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "node %q is not found", r.Name)
}

// GetInventoryStatus lists the members known to this cluster.
func (s *api) GetInventoryStatus(ctx context.Context, r *proto.InventoryStatusRequest) (*proto.InventoryStatusSummary, error) {
	if _, err := s.allowed(ctx, "instance", types.VerbList); err != nil {
		return nil, err
	}
	sum := &proto.InventoryStatusSummary{}
	if !r.Connected {
		return sum, nil
	}
	for kind, role := range map[string]types.SystemRole{types.KindNode: types.RoleNode, types.KindProxy: types.RoleProxy, types.KindKubeService: types.RoleKube} {
		servers, err := s.servers(ctx, kind)
		if err != nil {
			return nil, grpcError(err)
		}
		for _, n := range servers {
			sum.Connected = append(sum.Connected, proto.UpstreamInventoryHello{
				Version: n.GetTeleportVersion(), ServerID: n.GetName(), Services: []types.SystemRole{role},
			})
		}
	}
	return sum, nil
}

// GetClusterAlerts says that there are none, so that clients stay quiet.
func (s *api) GetClusterAlerts(context.Context, *types.GetClusterAlertsRequest) (*proto.GetClusterAlertsResponse, error) {
	return &proto.GetClusterAlertsResponse{}, nil
}

// GetCurrentUser is the user who asks.
func (s *api) GetCurrentUser(ctx context.Context, _ *emptypb.Empty) (*types.UserV2, error) {
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	user, err := s.getUser(ctx, c.name)
	return user, grpcError(err)
}

// GetRole returns one role.
func (s *api) GetRole(ctx context.Context, r *proto.GetRoleRequest) (*types.RoleV5, error) {
	if _, err := s.allowed(ctx, types.KindRole, types.VerbRead); err != nil {
		return nil, err
	}
	role, err := s.role(ctx, r.Name)
	if err != nil {
		return nil, grpcError(err)
	}
	return role.(*types.RoleV5), nil
}

// GetRoles returns all roles.
func (s *api) GetRoles(ctx context.Context, _ *emptypb.Empty) (*proto.GetRolesResponse, error) {
	if _, err := s.allowed(ctx, types.KindRole, types.VerbList, types.VerbRead); err != nil {
		return nil, err
	}
	roles, err := s.roles(ctx)
	return &proto.GetRolesResponse{Roles: roles}, grpcError(err)
}

// GenerateToken makes a join token.
func (s *api) GenerateToken(ctx context.Context, r *proto.GenerateTokenRequest) (*proto.GenerateTokenResponse, error) {
	if _, err := s.admin(ctx, types.KindToken, types.VerbCreate); err != nil {
		return nil, err
	}
	token, err := s.generateToken(ctx, r.Token, r.Roles, time.Duration(r.TTL), r.Labels)
	return &proto.GenerateTokenResponse{Token: token}, grpcError(err)
}

// UpsertNode takes a node's heartbeat.
func (s *api) UpsertNode(ctx context.Context, n *types.ServerV2) (*types.KeepAlive, error) {
	if _, err := s.hostOnly(ctx); err != nil {
		return nil, err
	}
	if err := s.upsertServer(ctx, n); err != nil {
		return nil, grpcError(err)
	}
	return &types.KeepAlive{Type: types.KeepAlive_NODE, Name: n.GetName(), Namespace: n.GetNamespace(), Expires: n.Expiry()}, nil
}
