package auth

import (
	"context"

	"github.com/gravitational/teleport/api/types"
	"google.golang.org/protobuf/types/known/emptypb"
)

// GetSessionRecordingConfig is the mode from the configuration file.
func (s *api) GetSessionRecordingConfig(ctx context.Context, _ *emptypb.Empty) (*types.SessionRecordingConfigV2, error) {
	if _, err := s.caller(ctx); err != nil {
		return nil, err
	}
	cfg, err := types.NewSessionRecordingConfigFromConfigFile(types.SessionRecordingConfigSpecV2{Mode: s.Config.Auth.SessionRecording})
	if err != nil {
		return nil, grpcError(err)
	}
	return cfg.(*types.SessionRecordingConfigV2), nil
}

// GetClusterNetworkingConfig is the listener mode and what else the file says.
func (s *api) GetClusterNetworkingConfig(ctx context.Context, _ *emptypb.Empty) (*types.ClusterNetworkingConfigV2, error) {
	if _, err := s.caller(ctx); err != nil {
		return nil, err
	}
	spec := types.ClusterNetworkingConfigSpecV2{
		KeepAliveInterval: types.NewDuration(s.Config.Auth.KeepAliveInterval), KeepAliveCountMax: s.Config.Auth.KeepAliveCountMax,
		ClientIdleTimeout: types.NewDuration(s.Config.Auth.IdleTimeout),
	}
	if s.Config.Auth.ProxyListenerMode == "multiplex" {
		spec.ProxyListenerMode = types.ProxyListenerMode_Multiplex
	}
	if s.Config.Auth.RoutingStrategy == "most_recent" {
		spec.RoutingStrategy = types.RoutingStrategy_MOST_RECENT
	}
	cfg, err := types.NewClusterNetworkingConfigFromConfigFile(spec)
	if err != nil {
		return nil, grpcError(err)
	}
	return cfg.(*types.ClusterNetworkingConfigV2), nil
}
