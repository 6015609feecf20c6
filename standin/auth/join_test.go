package auth

import (
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gravitational/teleport/api/types"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/authclient"
)

func TestJoinByToken(t *testing.T) {
	r := newRig(t, nil)
	short, err := r.auth.generateToken(t.Context(), "", types.SystemRoles{types.RoleNode}, time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.auth.generateToken(t.Context(), "over", types.SystemRoles{types.RoleNode}, -time.Second, nil); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, token string
		role        types.SystemRole
		want        string // part of the error; empty: joins
	}{
		{"a static token lets its roles join", "secret", types.RoleNode, ""},
		{"a static token for several roles lets each join", "secret", types.RoleProxy, ""},
		{"a static token lets no other role join", "secret", types.RoleKube, "does not allow"},
		{"a token made by tokens add lets join", short, types.RoleNode, ""},
		{"a token whose time is over is not valid", "over", types.RoleNode, "the token is not valid"},
		{"a made-up token is not valid", "guess", types.RoleNode, "the token is not valid"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := r.join(authclient.JoinParams{Token: row.token, NodeName: "n", Role: row.role})
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestCAPinsAreCompared(t *testing.T) {
	r := newRig(t, nil)
	p := authclient.JoinParams{Token: "secret", NodeName: "n", Role: types.RoleNode, CAPins: []string{"sha256:00"}}
	if _, err := r.join(p); err == nil || !strings.Contains(err.Error(), "cluster pin does not match") {
		t.Errorf("wrong pin: got %v", err)
	}
}

func TestIdentityNamesTheHost(t *testing.T) {
	r := newRig(t, nil)
	id, err := r.join(authclient.JoinParams{Token: "secret", NodeName: "web1", Role: types.RoleNode, Principals: []string{"web.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	cert := id.SSH.PublicKey().(*ssh.Certificate)
	want := strings.Join([]string{id.HostUUID + ".test.example.com", id.HostUUID, "web1.test.example.com", "web1", "localhost", "127.0.0.1", "::1", "web.example.com"}, " ")
	if got := strings.Join(cert.ValidPrincipals, " "); got != want {
		t.Errorf("principals are\n%s, want\n%s", got, want)
	}
	if ext := cert.Permissions.Extensions; ext["x-teleport-role"] != "Node" || ext["x-teleport-authority"] != "test.example.com" {
		t.Errorf("extensions are %v", ext)
	}
	path := filepath.Join(t.TempDir(), "id")
	if err := id.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := authclient.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if again.HostUUID != id.HostUUID || again.NodeName != "web1" || again.Role != types.RoleNode || !again.Covers([]string{"web.example.com"}) || again.Covers([]string{"other"}) {
		t.Errorf("read back: %+v", again)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("identity has mode %o", info.Mode().Perm())
	}
}

const proxyToken = `{"kind":"token","version":"v2","metadata":{"name":"proxy","expires":"3000-01-01T00:00:00Z"},
"spec":{"roles":["Proxy"],"join_method":"kubernetes","kubernetes":{"allow":[{"service_account":"teleport:teleport-proxy"}]}}}`

func TestJoinByServiceAccount(t *testing.T) {
	fakeCluster(t, map[string]string{"good": "system:serviceaccount:teleport:teleport-proxy", "other": "system:serviceaccount:teleport:other", "person": "alice"})
	r := newRig(t, nil)
	if err := r.auth.create(t.Context(), "test", []byte(proxyToken), false); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, jwt, method, want string
	}{
		{"the account of the rule joins", "good", "kubernetes", ""},
		{"another account does not", "other", "kubernetes", `service account "teleport:other" is not allowed`},
		{"a person's token does not", "person", "kubernetes", "no service account"},
		{"a forged token does not", "forged", "kubernetes", "token is not valid"},
		{"the token's name alone does not", "good", "token", `only valid for the "kubernetes" join method`},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "jwt")
			if err := os.WriteFile(file, []byte(row.jwt+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := r.join(authclient.JoinParams{Method: row.method, Token: "proxy", NodeName: "p", Role: types.RoleProxy, JWTFile: file})
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

// fakeCluster is an API server that answers TokenReviews, found as in a pod.
func fakeCluster(t *testing.T, users map[string]string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review tokenReview
		if req.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" || req.Header.Get("Authorization") != "Bearer own" || json.NewDecoder(req.Body).Decode(&review) != nil {
			http.Error(w, "bad request", http.StatusForbidden)
			return
		}
		review.Status.User.Username, review.Status.Authenticated = users[review.Spec.Token], users[review.Spec.Token] != ""
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, data := range map[string][]byte{"token": []byte("own"), "ca.crt": ca} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u, _ := url.Parse(server.URL)
	host, port, _ := net.SplitHostPort(u.Host)
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	t.Setenv("STANDIN_SERVICE_ACCOUNT_DIR", dir)
}

func TestBadTokensAreRefusedWithAReason(t *testing.T) {
	r := newRig(t, nil)
	for spec, want := range map[string]string{
		`{"kind":"token","metadata":{"name":"a"},"spec":{"roles":["Nobody"]}}`:                                                                               "invalid role",
		`{"kind":"token","metadata":{"name":"a"},"spec":{"roles":["Node"],"join_method":"iam"}}`:                                                             "allowed are token, kubernetes",
		`{"kind":"token","metadata":{"name":"a"},"spec":{"roles":["Node"],"join_method":"kubernetes"}}`:                                                      "at least one rule",
		`{"kind":"token","metadata":{"name":"a"},"spec":{"roles":["Node"],"join_method":"kubernetes","kubernetes":{"allow":[{"service_account":"wrong"}]}}}`: "namespace:service_account",
		`{"kind":"token","metadata":{},"spec":{"roles":["Node"]}}`:                                                                                           "metadata.name",
		`{"kind":"cheese"}`: "supported are role, user, token",
	} {
		if err := r.auth.create(t.Context(), "test", []byte(spec), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", spec, err, want)
		}
	}
}
