package proxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/node"
	"shakedown.dev/shakedown/standin/sshutil/sshtest"
)

func TestDrainWaitsForSessions(t *testing.T) {
	r := newRig(t)
	s := r.open("standin-echo cat")
	s.say(r, "before", "before")
	drained := make(chan error, 1)
	go func() { drained <- r.proxy.Drain(t.Context()) }()
	r.eventually("listeners closed", func() bool {
		c, err := r.dialProxy()
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	r.eventually("agents told to go", func() bool {
		_, err := r.proxy.tunnels.Dial(nodeUUID, "node", "@local-node")
		return err != nil && strings.Contains(err.Error(), "draining")
	})
	s.say(r, "during", "during")
	select {
	case err := <-drained:
		t.Fatalf("drained with an open session: %v", err)
	default:
	}
	s.outer.Close()
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
}

func TestDrainEndsWithItsContext(t *testing.T) {
	r := newRig(t)
	r.open("standin-echo cat")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := r.proxy.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("drain ended with %v", err)
	}
}

func TestCloseLosesWhatIsInMemory(t *testing.T) {
	r := newRig(t)
	s := r.open("standin-echo cat")
	s.say(r, "hello", "hello")
	sid := r.sessionID()
	r.node.Close()
	var missing *ssh.ExitMissingError
	if err := s.Wait(); !errors.As(err, &missing) {
		t.Errorf("session ended with %v, want no exit status", err)
	}
	if n := len(r.auth.Events("session.end", "session.leave")); n != 0 {
		t.Errorf("%d events of the end, want none", n)
	}
	parts, err := filepath.Glob(filepath.Join(r.nodeDir, "log/upload/streaming/default/multi/*", sid, "*"))
	if err != nil || len(parts) != 1 || filepath.Base(parts[0]) != "1.reservation" {
		t.Errorf("left on disk: %v, want the reservation of the first part only", parts)
	}
}

func TestDirectNode(t *testing.T) {
	r := newRig(t)
	const uuid = "bbbbbbbb-0000-4000-8000-000000000007"
	cfg := mustConfig(t, fmt.Sprintf("version: v3\nteleport: {data_dir: %s, auth_server: '127.0.0.1:3025'}\nssh_service: {enabled: yes, listen_addr: '127.0.0.1:0'}\nproxy_service: {enabled: no}\nauth_service: {enabled: no}\n", t.TempDir()))
	svc, err := node.New(r.env(cfg, uuid, "direct", types.RoleNode, r.nodeFaults, prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	outer, err := r.dialProxy()
	if err != nil {
		t.Fatal(err)
	}
	var inner *ssh.Client
	r.eventually("a way to the node", func() bool { inner, err = r.dialNode(outer, "direct:0"); return err == nil })
	s, err := inner.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.Output("echo $SSH_TELEPORT_HOST_UUID"); err != nil || string(out) != uuid+"\n" {
		t.Errorf("output %q, %v", out, err)
	}
}

func TestAuthAway(t *testing.T) {
	r := newRig(t)
	s := r.open("standin-echo cat")
	s.say(r, "before", "before")
	r.auth.With(func(a *sshtest.Auth) { a.Down = true })
	s.say(r, "during", "during")
	if _, err := r.tryOpen("standin-echo cat"); err == nil || !strings.Contains(err.Error(), "exec") && !strings.Contains(err.Error(), "command") {
		t.Errorf("a session that cannot be tracked began: %v", err)
	}
	r.auth.With(func(a *sshtest.Auth) { a.Down = false })
	r.open("standin-echo cat").say(r, "after", "after")
}

// inMode starts a rig whose cluster records in a mode.
func inMode(mode string) option {
	return func(r *rig, _ *config.Config) {
		r.auth.With(func(a *sshtest.Auth) { a.Config.SessionRecording = mode })
	}
}

func TestProxyRecords(t *testing.T) {
	for _, mode := range []string{"proxy", "proxy-sync"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, inMode(mode))
			outer, err := r.dialProxy()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.dialNode(outer, nodeUUID+":0"); err == nil || !strings.Contains(err.Error(), "agent forwarding required in proxy recording mode") {
				t.Fatalf("let in without an agent: %v", err)
			}
			keyring := agent.NewKeyring()
			if err := keyring.Add(r.agentKey()); err != nil {
				t.Fatal(err)
			}
			if err := agent.ForwardToAgent(outer, keyring); err != nil {
				t.Fatal(err)
			}
			r.forwardAgent = true
			inner, err := r.dialNode(outer, nodeUUID+":0")
			if err != nil {
				t.Fatal(err)
			}
			s := r.terminalOn(outer, inner, "standin-echo echo sid=$SSH_SESSION_ID; cat")
			sid := r.sessionID()
			s.say(r, "hello", "hello")
			if strings.Contains(s.out.String(), "sid="+sid) {
				t.Error("the node's session id is the audit log's, which the real proxy's is not")
			}
			shell := r.terminalOn(outer, inner, "")
			shell.say(r, "echo shell here", "shell here")
			shell.Close()
			s.in.Close()
			if err := s.Wait(); err != nil {
				t.Fatalf("session ended with %v", err)
			}
			r.eventually("recording", func() bool { return r.auth.Recording(sid) != nil })
			if got := printed(r.auth.Recording(sid)); !strings.Contains(got, "hello") {
				t.Errorf("recorded %q", got)
			}
			start := r.auth.Events("session.start")
			first := start[0].(*events.SessionStart)
			if len(start) != 2 || first.ForwardedBy != proxyUUID || first.ServerID != nodeUUID+".main" || first.ServerAddr != "@local-node" || first.ServerHostname != nodeUUID {
				t.Errorf("session.start events: %+v", start)
			}
			if got := testutil.ToFloat64(r.proxy.router.sessions); got != 1 {
				t.Errorf("proxy counts %v sessions, want 1", got)
			}
			files, _ := os.ReadDir(filepath.Join(r.nodeDir, "log/upload/streaming/default/multi"))
			if len(files) != 0 {
				t.Errorf("the node recorded too: %v", files)
			}
		})
	}
}

func TestModeOffUploadsEventsOnly(t *testing.T) {
	r := newRig(t, inMode("off"))
	s := r.open("standin-echo cat")
	s.say(r, "hello", "hello")
	s.in.Close()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	sid := r.sessionID()
	r.eventually("upload", func() bool { return r.auth.Recording(sid) != nil })
	if got := printed(r.auth.Recording(sid)); got != "" {
		t.Errorf("recorded %q", got)
	}
}
