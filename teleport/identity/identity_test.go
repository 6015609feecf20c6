package identity_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/ssh/sshtest"
)

const cluster = "lab.example.com"

func sign(t testing.TB) (*sshtest.Authority, *identity.Identity, []byte) {
	t.Helper()
	a, err := sshtest.NewAuthority(cluster)
	if err != nil {
		t.Fatal(err)
	}
	id, file, err := a.Identity("load-0", time.Now().Add(time.Hour), "root", "-teleport-internal-join")
	if err != nil {
		t.Fatal(err)
	}
	return a, id, file
}

func TestParse(t *testing.T) {
	_, id, file := sign(t)
	if id.User != "load-0" || id.Cluster != cluster || len(id.Logins) != 1 || !id.Allows("root") {
		t.Errorf("got %q at %q with logins %v", id.User, id.Cluster, id.Logins)
	}
	if id.Expired(time.Now(), 0) || !id.Expired(time.Now(), 2*time.Hour) {
		t.Errorf("it expires at %s", id.Expires)
	}
	noisy := append([]byte("Note: a line of tctl\n"), append(file, "\nThe credentials have been written to /dev/stdout\n"...)...)
	if again, err := identity.Parse(noisy); err != nil || again.User != id.User {
		t.Errorf("among tctl's own words: %v", err)
	}
}

func TestSaveAndLoad(t *testing.T) {
	_, id, _ := sign(t)
	path := filepath.Join(t.TempDir(), "private", "id")
	if err := id.Save(path); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	back, err := identity.Load(path)
	if err != nil || back.User != id.User || !back.Expires.Equal(id.Expires) {
		t.Errorf("got %+v, %v", back, err)
	}
}

func TestParseRefused(t *testing.T) {
	_, _, file := sign(t)
	without := func(what string) []byte {
		var out [][]byte
		for line := range bytes.Lines(file) {
			if !bytes.Contains(line, []byte(what)) {
				out = append(out, line)
			}
		}
		return bytes.Join(out, nil)
	}
	tests := []struct{ because, want string }{
		{"PRIVATE KEY", "no private key"},
		{"-cert-v01@openssh.com AAAA", "no SSH certificate"},
		{"@cert-authority", "no @cert-authority line"},
		{"CERTIFICATE", "TLS certificate"},
	}
	for _, tt := range tests {
		t.Run("without "+tt.because, func(t *testing.T) {
			if _, err := identity.Parse(without(tt.because)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestHostKeys(t *testing.T) {
	a, id, _ := sign(t)
	other, _, _ := sign(t)
	check := id.HostKeyCallback()
	tests := []struct {
		because string
		signer  *sshtest.Authority
		names   []string
		addr    string
		want    string // empty: accepted
	}{
		{"a host of the cluster under its own name", a, []string{"uuid", "localhost"}, "localhost:3023", ""},
		{"under another name", a, []string{"uuid", "localhost"}, "10.0.0.1:3023", "its certificate is for uuid, localhost"},
		{"of another cluster", other, []string{"localhost"}, "localhost:3023", "not an authority of cluster lab.example.com"},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			host, err := tt.signer.Host(tt.names...)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, check(tt.addr, &net.TCPAddr{}, host.PublicKey()), tt.want)
		})
	}
	t.Run("what was verified once is looked at again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, id, _ := sign(t)
			check := id.HostKeyCallback()
			host, err := a.Host("localhost")
			if err != nil {
				t.Fatal(err)
			}
			cert := host.PublicKey().(*ssh.Certificate)
			expect(t, check("localhost:1", &net.TCPAddr{}, cert), "")
			expect(t, check("localhost:2", &net.TCPAddr{}, cert), "")
			expect(t, check("elsewhere:1", &net.TCPAddr{}, cert), "its certificate is for localhost")
			forged := *cert
			forged.Signature = &ssh.Signature{Format: cert.Signature.Format, Blob: append([]byte{0}, cert.Signature.Blob...)}
			expect(t, check("localhost:1", &net.TCPAddr{}, &forged), "signature")
			time.Sleep(time.Until(time.Unix(int64(cert.ValidBefore), 0)))
			expect(t, check("localhost:1", &net.TCPAddr{}, cert), "expired")
		})
	})
	t.Run("a bare key", func(t *testing.T) {
		host, err := a.Host("localhost")
		if err != nil {
			t.Fatal(err)
		}
		expect(t, check("localhost:1", &net.TCPAddr{}, host.PublicKey().(*ssh.Certificate).Key), "a bare key")
	})
	t.Run("a user's certificate is no host's", func(t *testing.T) {
		expect(t, check("root:1", &net.TCPAddr{}, id.Signer().PublicKey()), "ssh: certificate presented as a host key has type 1")
	})
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	var host *identity.HostError
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (!errors.As(err, &host) || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want a *HostError with %q", err, want)
	}
}

func FuzzParse(f *testing.F) {
	_, _, file := sign(f)
	f.Add(file)
	f.Add([]byte("@cert-authority x\n"))
	f.Add([]byte("ssh-rsa-cert-v01@openssh.com AAAA\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := identity.Parse(data)
		if (id == nil) == (err == nil) {
			t.Errorf("identity %v with error %v", id, err)
		}
	})
}
