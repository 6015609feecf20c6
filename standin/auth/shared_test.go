package auth

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/audit"
	"shakedown.dev/shakedown/standin/etcdserver"
)

func etcdConfig(t *testing.T) option {
	t.Helper()
	server, err := etcdserver.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(func() { _ = server.Close() })
	return withYAML(fmt.Sprintf(", storage: {type: etcd, peers: [%q], prefix: t}", "http://"+lis.Addr().String()))
}

func TestTwoAuthsShareEverythingOverEtcd(t *testing.T) {
	shared := etcdConfig(t)
	var rigs [2]*rig
	var both sync.WaitGroup
	for i := range rigs { // at once: only one may make the authorities
		both.Go(func() { rigs[i] = newRig(t, nil, shared) })
	}
	both.Wait()
	one, two := rigs[0], rigs[1]
	if one == nil || two == nil {
		t.Fatal("an auth did not start")
	}
	if one.auth.host.Pin() != two.auth.host.Pin() || one.auth.user.Pin() != two.auth.user.Pin() {
		t.Fatal("the auths have authorities of their own")
	}
	node, sid := one.node(), newSID()
	server, err := types.NewServer(node.Identity().HostUUID, types.KindNode, types.ServerSpecV2{Hostname: "n"})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.UpsertServer(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	track(t, node, sid, time.Now().Add(time.Minute))
	if err := node.Emit(t.Context(), startEvent(sid)); err != nil {
		t.Fatal(err)
	}
	if err := node.UploadRecording(t.Context(), sid, recording(t, sid, 4000)); err != nil {
		t.Fatal(err)
	}
	other := two.node()
	nodes, err := other.Servers(t.Context(), types.KindNode)
	if err != nil || len(nodes) != 1 {
		t.Errorf("nodes at the other auth: %v and %v", nodes, err)
	}
	if _, err := other.Tracker(t.Context(), sid); err != nil {
		t.Errorf("tracker at the other auth: %v", err)
	}
	if got, err := two.play(other, sid); err != nil || len(got) != 4002 {
		t.Errorf("recording at the other auth: %d events and %v, want 4002", len(got), err)
	}
	if n := len(two.events(audit.SessionStart, audit.SessionUpload)); n != 2 {
		t.Errorf("%d events at the other auth, want 2", n)
	}
	auths, err := other.Servers(t.Context(), types.KindAuthServer)
	if err != nil || len(auths) != 2 {
		t.Errorf("auths listed: %d and %v, want 2", len(auths), err)
	}
}

func TestTwoAuthsWithLocalStateAreStrangers(t *testing.T) {
	one, two := newRig(t, nil), newRig(t, nil)
	if one.auth.host.Pin() == two.auth.host.Pin() {
		t.Error("auths with local state share an authority")
	}
}

func TestAnAuthThatRestartsKnowsWhatItKnew(t *testing.T) {
	r := newRig(t, nil)
	node, sid := r.node(), newSID()
	if err := node.Emit(t.Context(), startEvent(sid)); err != nil {
		t.Fatal(err)
	}
	if err := r.server.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), r.auth.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	if again.host.Pin() != r.auth.host.Pin() {
		t.Error("it made a new authority")
	}
	r.auth = again
	if n := len(r.events(audit.SessionStart)); n != 1 {
		t.Errorf("%d events after the restart, want 1", n)
	}
}
