package proxy

import (
	"io"
	"strings"
	"testing"

	"github.com/gravitational/teleport/api/types/events"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestShellThroughTunnel(t *testing.T) {
	r := newRig(t)
	s := r.open("standin-echo echo ready; cat")
	s.say(r, "hello", "hello")
	if got := testutil.ToFloat64(r.proxy.router.sessions); got != 1 {
		t.Errorf("proxy counts %v sessions, want 1", got)
	}
	s.in.Close()
	if err := s.Wait(); err != nil {
		t.Fatalf("session ended with %v", err)
	}
	r.eventually("upload", func() bool { return len(r.auth.Events("session.upload")) == 1 })
	var codes []string
	for _, e := range r.auth.Events() {
		codes = append(codes, e.GetCode())
	}
	if got := strings.Join(codes, " "); got != "T2000I T3002I T2003I T2004I T2006I T2005I" {
		t.Errorf("audit codes %s", got)
	}
}

func TestRealShell(t *testing.T) {
	r := newRig(t)
	s := r.open("")
	s.say(r, "echo sid=$SSH_SESSION_ID host=$SSH_TELEPORT_HOST_UUID cluster=$SSH_TELEPORT_CLUSTER_NAME user=$SSH_TELEPORT_USER client=${SSH_CLIENT%% *}",
		"host="+nodeUUID+" cluster=main user=alice client=127.0.0.1")
	s.say(r, "exec sh -c 'exit 7'", "")
	err := s.Wait()
	if err == nil || !strings.Contains(err.Error(), "exited with status 7") {
		t.Fatalf("session ended with %v, want status 7", err)
	}
	_ = io.EOF
	var _ events.AuditEvent
}
