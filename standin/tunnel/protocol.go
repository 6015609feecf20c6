// Package tunnel is the reverse tunnel: agents dial a proxy and keep the SSH connection open, and the proxy opens a channel on it for each session it routes to the agent's server.
//
// The channels and requests are those of the real program, so that what is seen on the wire, when an agent reconnects and what it is told are the same.
package tunnel

import (
	"encoding/json"
	"fmt"
	"time"
)

// Names of channels and requests, and special addresses, of the reverse tunnel protocol.
const (
	ALPN             = "teleport-reversetunnel"
	channelHeartbeat = "teleport-heartbeat"
	channelDiscovery = "teleport-discovery"
	channelTransport = "teleport-transport"
	requestDiscovery = "discovery"
	requestDial      = "teleport-transport-dial"
	requestPing      = "ping"
	requestReconnect = "reconnect@goteleport.com"
	requestVersion   = "x-teleport-version"

	LocalNode       = "@local-node"
	LocalKubernetes = "remote.kube.proxy.teleport.cluster.local"
	RemoteAuth      = "@remote-auth-server"
)

// Kinds of tunnel, by what serves at the agent's end; also the label of teleport_reverse_tunnels_connected.
const (
	KindNode = "node"
	KindKube = "kube"
)

// Times of the real program.
const (
	proxyExpiry = 3 * time.Minute     // a proxy nobody speaks of any more is forgotten
	proxySync   = proxyExpiry * 2 / 3 // a connected agent is told of all proxies this often
	maxBackoff  = 8 * time.Second
	backoffStep = time.Second
)

// dialRequest asks the other end of a transport channel to connect it.
type dialRequest struct {
	Address  string `json:"address,omitempty"`
	ServerID string `json:"server_id,omitempty"` // <uuid>.<cluster>
	ConnType string `json:"conn_type"`
}

// discovery is the list of proxies a proxy knows, in the shape of cut-down proxy resources.
type discovery struct {
	Proxies []discoveredProxy `json:"proxies"`
}

type discoveredProxy struct {
	Version  string `json:"version"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
}

func encodeDiscovery(proxies []string) []byte {
	d := discovery{Proxies: make([]discoveredProxy, len(proxies))}
	for i, name := range proxies {
		d.Proxies[i].Version = "v2"
		d.Proxies[i].Metadata.Name = name
	}
	raw, err := json.Marshal(d)
	if err != nil {
		panic(err) // strings always marshal
	}
	return raw
}

func decodeDiscovery(raw []byte) ([]string, error) {
	var d discovery
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("decode discovery request: %w", err)
	}
	names := make([]string, len(d.Proxies))
	for i, p := range d.Proxies {
		names[i] = p.Metadata.Name
	}
	return names, nil
}
