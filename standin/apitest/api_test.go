// Package apitest drives a running stand-in with the real API's own client. It
// is a module of its own because that client needs an otelgrpc that the root
// module cannot have.
package apitest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/gravitational/teleport/api/client"
	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"
	"github.com/gravitational/trace"
	"golang.org/x/crypto/ssh"
)

func connect(t *testing.T, c *cluster, identity string) *client.Client {
	t.Helper()
	clt, err := client.New(t.Context(), client.Config{
		Addrs: []string{c.authAddr}, Credentials: []client.Credentials{client.LoadIdentityFile(identity)},
		InsecureAddressDiscovery: true,
	})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = clt.Close() })
	return clt
}

func TestPingNamesAStandIn(t *testing.T) {
	c := startCluster(t)
	ping, err := connect(t, c, c.identity).Ping(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ping.ClusterName != "api.example.com" || ping.ServerVersion != "13.0.0-standin" {
		t.Errorf("got cluster %q, version %q", ping.ClusterName, ping.ServerVersion)
	}
}

func TestTheClientFindsItsWayThroughAProxy(t *testing.T) {
	for _, mode := range []string{"multiplex", "separate"} {
		t.Run(mode, func(t *testing.T) {
			c := startWith(t, mode, "yes")
			clt, err := client.New(t.Context(), client.Config{
				Addrs: []string{c.webAddr}, Credentials: []client.Credentials{client.LoadIdentityFile(c.identity)},
				InsecureAddressDiscovery: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = clt.Close() })
			ping, err := clt.Ping(t.Context())
			if err != nil || ping.ClusterName != "api.example.com" {
				t.Errorf("got %q and %v", ping.ClusterName, err)
			}
		})
	}
}

func TestSearchPagesThroughEvents(t *testing.T) {
	c := startCluster(t)
	clt := connect(t, c, c.identity)
	for i := range 7 {
		c.emit(t, &events.SessionStart{
			Metadata:        events.Metadata{Type: "session.start", Code: "T2000I", Time: time.Now().UTC().Add(time.Duration(i) * time.Millisecond)},
			SessionMetadata: events.SessionMetadata{SessionID: sid(i)},
		})
	}
	for _, order := range []types.EventOrder{types.EventOrderAscending, types.EventOrderDescending} {
		var got []string
		key := ""
		for range 10 {
			page, next, err := clt.SearchEvents(t.Context(), time.Now().Add(-time.Hour), time.Now().Add(time.Hour), "default", []string{"session.start"}, 3, order, key)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page {
				got = append(got, e.(*events.SessionStart).SessionID)
			}
			if key = next; key == "" {
				break
			}
		}
		if len(got) != 7 {
			t.Fatalf("order %v: got %d events, want 7", order, len(got))
		}
		first := sid(0)
		if order == types.EventOrderDescending {
			first = sid(6)
		}
		if got[0] != first {
			t.Errorf("order %v: first is %s, want %s", order, got[0], first)
		}
	}
}

func TestPlaybackIsNotFoundUntilUploaded(t *testing.T) {
	c := startCluster(t)
	clt := connect(t, c, c.identity)
	if _, err := play(t, clt, sid(1)); !trace.IsNotFound(err) {
		t.Fatalf("before the upload: got %v, want NotFound", err)
	}
	c.record(t, sid(1), 5)
	got, err := play(t, clt, sid(1))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 5 {
		t.Errorf("played %d events, want 5", len(got))
	}
	var kinds []string
	found, _, err := clt.SearchEvents(t.Context(), time.Now().Add(-time.Hour), time.Now().Add(time.Hour), "default", nil, 100, types.EventOrderAscending, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		kinds = append(kinds, e.GetType()+" "+e.GetCode())
	}
	for _, want := range []string{"session.upload T2005I", "session.recording.access T2012I", "user.create T1002I", "cert.create TC000I"} {
		if !contains(kinds, want) {
			t.Errorf("no %s among %v", want, kinds)
		}
	}
}

func play(t *testing.T, clt *client.Client, sid string) ([]events.AuditEvent, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ch, errs := clt.StreamSessionEvents(ctx, sid, 0)
	var out []events.AuditEvent
	for {
		select {
		case e, ok := <-ch:
			if !ok {
				return out, nil
			}
			out = append(out, e)
		case err := <-errs:
			return out, err
		}
	}
}

func TestTrackersOfOpenSessions(t *testing.T) {
	c := startCluster(t)
	c.track(t, sid(3), time.Now().Add(time.Minute))
	c.track(t, sid(4), time.Now().Add(-time.Minute))
	clt := connect(t, c, c.identity)
	trackers, err := clt.GetActiveSessionTrackers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(trackers) != 1 || trackers[0].GetSessionID() != sid(3) {
		t.Errorf("got %d trackers, want the one that has not expired", len(trackers))
	}
	if _, err := clt.GetSessionTracker(t.Context(), sid(4)); !trace.IsNotFound(err) {
		t.Errorf("an expired tracker: got %v, want NotFound", err)
	}
}

func TestNodesAreListed(t *testing.T) {
	c := startCluster(t)
	for i := range 5 {
		c.announce(t, sid(i))
	}
	clt := connect(t, c, c.identity)
	nodes, err := client.GetResourcesWithFilters(t.Context(), clt, listNodes(2))
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) != 5 {
		t.Errorf("got %d nodes over pages of two, want 5", len(nodes))
	}
}

func TestRolesDecide(t *testing.T) {
	c := startCluster(t)
	clt := connect(t, c, c.powerless)
	_, _, err := clt.SearchEvents(t.Context(), time.Now().Add(-time.Hour), time.Now(), "default", nil, 10, types.EventOrderAscending, "")
	if !trace.IsAccessDenied(err) {
		t.Errorf("events without the rule: got %v, want access denied", err)
	}
	if _, err := play(t, clt, sid(1)); !trace.IsAccessDenied(err) {
		t.Errorf("playback without the rule: got %v, want access denied", err)
	}
}

func contains(list []string, want string) bool {
	for _, s := range list {
		if s == want {
			return true
		}
	}
	return false
}

func TestAUserGetsAnotherKeySigned(t *testing.T) {
	c := startCluster(t)
	clt := connect(t, c, c.identity)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	request := proto.UserCertsRequest{PublicKey: ssh.MarshalAuthorizedKey(public), Username: "load", Expires: time.Now().Add(100 * time.Hour), KubernetesCluster: "k"}
	certs, err := clt.GenerateUserCerts(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	signed, _, _, _, err := ssh.ParseAuthorizedKey(certs.SSH)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certs.TLS)
	tlsCert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	cert := signed.(*ssh.Certificate)
	if cert.KeyId != "load" || tlsCert.Subject.CommonName != "load" || time.Until(tlsCert.NotAfter) > 12*time.Hour {
		t.Errorf("user %q and %q until %s, want load for at most the 12 hours of the identity", cert.KeyId, tlsCert.Subject.CommonName, tlsCert.NotAfter)
	}
	request.Username = "powerless"
	if _, err := clt.GenerateUserCerts(t.Context(), request); !trace.IsAccessDenied(err) {
		t.Errorf("for somebody else: got %v, want access denied", err)
	}
}
