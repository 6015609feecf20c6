// Package sshutil holds what the stand-in's proxy, node and reverse tunnels share of the SSH protocol: certificates, serving a connection with few goroutines, and copying with small buffers.
package sshutil

// ServerVersion is what every SSH server of the stand-in sends first. The prefix is the one by which a Teleport proxy knows a Teleport server.
const ServerVersion = "SSH-2.0-Teleport_standin"

// ServerVersionPrefix is the beginning of the version line of a Teleport server, real or not.
const ServerVersionPrefix = "SSH-2.0-Teleport"

// Names of the requests and channels Teleport adds to SSH.
const (
	ClusterDetailsRequest = "cluster-details@goteleport.com"
	KeepAliveRequest      = "keepalive@openssh.com"
	AgentForwardRequest   = "auth-agent-req@openssh.com"
	AgentChannel          = "auth-agent@openssh.com"
)

// ClusterDetails is the answer to ClusterDetailsRequest, encoded by ssh.Marshal.
type ClusterDetails struct {
	RecordingProxy bool
	FIPSEnabled    bool
}
