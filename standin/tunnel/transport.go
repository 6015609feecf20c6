package tunnel

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/sshutil"
)

// Permissions of a connection: a host's or a user's.
const (
	extUUID = "uuid"
	extRole = "role"
	extUser = "user"
)

// authenticate takes agents by their host certificates and users by theirs. Users
// may reach the auth through the tunnel port and nothing else.
func (s *Server) authenticate(ctx context.Context, meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	if cert, ok := key.(*ssh.Certificate); ok && cert.CertType == ssh.UserCert && s.cfg.UserCAs != nil {
		cas, err := s.cfg.UserCAs(ctx)
		if err != nil {
			return nil, err
		}
		user, err := sshutil.CheckUser(key, meta.User(), cas)
		if err != nil {
			return nil, err
		}
		return &ssh.Permissions{Extensions: map[string]string{extUser: user.User}}, nil
	}
	cas, err := s.cfg.HostCAs(ctx)
	if err != nil {
		return nil, err
	}
	host, err := sshutil.CheckHost(key, cas)
	if err != nil {
		return nil, err
	}
	if host.ClusterName != "" && host.ClusterName != s.cfg.Cluster {
		return nil, fmt.Errorf("agent from cluster %s cannot register a local service", host.ClusterName)
	}
	return &ssh.Permissions{Extensions: map[string]string{extUUID: host.UUID, extRole: host.Role}}, nil
}

// serveTransport connects one transport channel to the auth, by which clients of
// the API go through a proxy (api/client: the tunnel dialers).
func (s *Server) serveTransport(ctx context.Context, nch ssh.NewChannel) {
	ch, reqs, err := nch.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	var dial *ssh.Request
	select {
	case dial = <-reqs:
	case <-ctx.Done():
	}
	if dial == nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	auth, err := s.dialAuth(ctx, dial)
	if err != nil {
		fmt.Fprint(ch.Stderr(), err)
		_ = dial.Reply(false, nil)
		return
	}
	defer auth.Close()
	if dial.Reply(true, nil) != nil {
		return
	}
	sshutil.NewBuffers().Join(ch, auth)
}

func (s *Server) dialAuth(ctx context.Context, req *ssh.Request) (io.ReadWriteCloser, error) {
	var want dialRequest
	if req.Type != requestDial {
		return nil, fmt.Errorf("unexpected request %q on a transport channel", req.Type)
	}
	if err := json.Unmarshal(req.Payload, &want); err != nil {
		return nil, fmt.Errorf("read dial request: %w", err)
	}
	if want.Address != RemoteAuth || s.cfg.DialAuth == nil {
		return nil, fmt.Errorf("access denied: %s is not reached through the tunnel port", want.Address)
	}
	return s.cfg.DialAuth(ctx)
}
