package node

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/process"
)

// ClusterCache keeps the cluster's configuration, for use while the auth is away too.
type ClusterCache struct {
	auth authclient.Client
	have atomic.Pointer[authclient.ClusterConfig]
}

// NewClusterCache begins with the real program's defaults.
func NewClusterCache(env process.Env) *ClusterCache {
	c := &ClusterCache{auth: env.Auth}
	c.store(authclient.ClusterConfig{Cluster: env.Auth.Identity().Cluster})
	return c
}

// Get is the newest configuration known. It must not be changed.
func (c *ClusterCache) Get() *authclient.ClusterConfig { return c.have.Load() }

// Refresh asks the auth.
func (c *ClusterCache) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	fresh, err := c.auth.ClusterConfig(ctx)
	if err != nil {
		return err
	}
	c.store(*fresh)
	return nil
}

func (c *ClusterCache) store(cfg authclient.ClusterConfig) {
	if cfg.KeepAlive <= 0 {
		cfg.KeepAlive = 5 * time.Minute
	}
	if cfg.KeepAliveMax <= 0 {
		cfg.KeepAliveMax = 3
	}
	if cfg.SessionRecording == "" {
		cfg.SessionRecording = "node"
	}
	c.have.Store(&cfg)
}

// Advertised is the address to announce: a public one, else the listener's port at advertise_ip, POD_IP-like unspecified addresses replaced by this host's own.
func Advertised(env process.Env, public []string, listen string) string {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if len(public) > 0 {
		if _, _, err := net.SplitHostPort(public[0]); err == nil {
			return public[0]
		}
		return net.JoinHostPort(public[0], port)
	}
	host, _, _ := net.SplitHostPort(listen)
	switch ip := net.ParseIP(host); {
	case env.Config.Global.AdvertiseIP != "":
		host = env.Config.Global.AdvertiseIP
	case ip != nil && ip.IsUnspecified():
		host = ownAddress()
	}
	return net.JoinHostPort(host, port)
}

// ownAddress guesses this host's address in its network: the first that is not loopback, else loopback.
func ownAddress() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}
