package auth

import (
	"bytes"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gravitational/teleport/api/types"
	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/audit"
	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/process"
)

// recorded returns the sessions that the private record names for a fault.
func (r *rig) recorded(name faults.Name) []string {
	var out []string
	for _, e := range r.faults.Entries() {
		if e.Fault == name {
			out = append(out, e.Session)
		}
	}
	return out
}

func TestForgetEndEventLosesEverySecondEnd(t *testing.T) {
	r := newRig(t, []faults.Rule{{Name: faults.ForgetEndEvent, Every: 2}})
	node := r.node()
	for range 6 {
		sid := newSID()
		if err := node.Emit(t.Context(), startEvent(sid)); err != nil {
			t.Fatal(err)
		}
		if err := node.Emit(t.Context(), endEvent(sid)); err != nil {
			t.Fatal(err)
		}
	}
	kept := map[string]bool{}
	for _, e := range r.events(audit.SessionEnd) {
		kept[sessionID(e)] = true
	}
	lost := r.recorded(faults.ForgetEndEvent)
	if len(r.events(audit.SessionStart)) != 6 || len(kept) != 3 || len(lost) != 3 {
		t.Fatalf("%d ends kept and %d recorded as lost, want 3 and 3", len(kept), len(lost))
	}
	for _, sid := range lost {
		if kept[sid] {
			t.Errorf("session %s is recorded as lost but its end is there", sid)
		}
	}
}

func TestLateUploadIsThereLater(t *testing.T) {
	r := newRig(t, []faults.Rule{{Name: faults.LateUpload, For: 300 * time.Millisecond}})
	node, sid := r.node(), newSID()
	if err := node.UploadRecording(t.Context(), sid, recording(t, sid, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.play(node, sid); status.Code(err) != codes.NotFound {
		t.Errorf("right after the upload: got %v, want NotFound", err)
	}
	r.eventually("the recording is there", func() bool { _, err := r.play(node, sid); return err == nil })
	r.eventually("it is recorded", func() bool { return len(r.recorded(faults.LateUpload)) == 1 })
	if len(r.events(audit.SessionUpload)) != 1 {
		t.Error("want one session.upload")
	}
}

func TestStaleNodeStaysListed(t *testing.T) {
	for _, row := range []struct {
		name  string
		rules []faults.Rule
		want  int
	}{
		{"without the fault a node leaves when its time is over or it says so", nil, 0},
		{"with it neither takes it off the list", []faults.Rule{{Name: faults.StaleNode}}, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, row.rules)
			node := r.node()
			for i, name := range []string{newSID(), newSID()} {
				server, err := types.NewServer(name, types.KindNode, types.ServerSpecV2{Hostname: "n"})
				if err != nil {
					t.Fatal(err)
				}
				server.SetExpiry(time.Now().Add(time.Duration(i) * time.Hour)) // the first is over
				if err := node.UpsertServer(t.Context(), server); err != nil {
					t.Fatal(err)
				}
				if i == 1 {
					if err := node.DeleteServer(t.Context(), types.KindNode, name); err != nil {
						t.Fatal(err)
					}
				}
			}
			nodes, err := node.Servers(t.Context(), types.KindNode)
			if err != nil {
				t.Fatal(err)
			}
			if len(nodes) != row.want || len(r.recorded(faults.StaleNode)) != row.want {
				t.Errorf("%d nodes listed, %d recorded, want %d", len(nodes), len(r.recorded(faults.StaleNode)), row.want)
			}
		})
	}
}

func TestSlowAuthDelaysEveryCall(t *testing.T) {
	r := newRig(t, nil)
	node := r.node()
	r.faults.Set(faults.Rule{Name: faults.SlowAuth, For: 150 * time.Millisecond})
	started := time.Now()
	if _, err := node.ClusterConfig(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(started); took < 150*time.Millisecond {
		t.Errorf("the call took %s, want at least 150 ms", took)
	}
	if len(r.recorded(faults.SlowAuth)) == 0 {
		t.Error("it is not recorded")
	}
}

func TestWrongHostKeyIsSignedByNobody(t *testing.T) {
	r := newRig(t, []faults.Rule{{Name: faults.WrongHostKey}})
	id, err := r.join(authclient.JoinParams{Token: "secret", NodeName: "n", Role: types.RoleNode})
	if err != nil {
		t.Fatal(err)
	}
	signer := id.SSH.PublicKey().(*ssh.Certificate).SignatureKey
	if bytes.Equal(signer.Marshal(), r.auth.host.SSH.PublicKey().Marshal()) {
		t.Error("the host key is signed by the cluster's authority")
	}
	if got := r.recorded(faults.WrongHostKey); len(got) != 1 || got[0] != id.HostUUID {
		t.Errorf("recorded %v, want the host", got)
	}
	// The TLS half is good: the host can still talk to the auth.
	remote, err := authclient.Connect(r.target(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = remote.Close() })
	if _, err := remote.ClusterConfig(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestReadyWhileDeadRefusesEveryCall(t *testing.T) {
	r := newRig(t, nil)
	node := r.node()
	r.eventually("the auth is ready", func() bool { return r.health.State() == process.OK })
	r.faults.Set(faults.Rule{Name: faults.ReadyWhileDead})
	if _, err := node.ClusterConfig(t.Context()); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	w := httptest.NewRecorder()
	r.health.ServeReady(w, httptest.NewRequest("GET", "/readyz", nil))
	if w.Code != 200 {
		t.Errorf("/readyz answers %d, want the lie", w.Code)
	}
	if len(r.recorded(faults.ReadyWhileDead)) != 2 {
		t.Errorf("recorded %v, want the refusal and the lie", r.faults.Entries())
	}
}
