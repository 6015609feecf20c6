package proxy

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// openssh writes an identity and a configuration for the stock client and gives its arguments.
func (r *rig) openssh(t *testing.T, proxyLines string) []string {
	t.Helper()
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("the OpenSSH client is not installed")
	}
	dir := t.TempDir()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert := r.auth.Users.Certify("alice", signer.PublicKey(), []string{r.login}, "load")
	host, port, _ := net.SplitHostPort(r.proxy.addrs.ssh)
	config := fmt.Sprintf("Host *\n  User %s\n  IdentityFile %s/id\n  CertificateFile %s/id-cert.pub\n  UserKnownHostsFile %s/known_hosts\n  IdentitiesOnly yes\n  BatchMode yes\n  LogLevel ERROR\n", r.login, dir, dir, dir)
	config += "Host proxy\n  HostName " + host + "\n  Port " + port + "\n  HostKeyAlias localhost\nHost node\n  HostName " + nodeUUID + "\n  Port 3022\n  HostKeyAlias " + nodeUUID + "\n"
	config += strings.NewReplacer("$CONFIG", filepath.Join(dir, "config")).Replace(proxyLines)
	write(t, filepath.Join(dir, "id"), string(pem.EncodeToMemory(block)))
	write(t, filepath.Join(dir, "id-cert.pub"), string(ssh.MarshalAuthorizedKey(cert)))
	write(t, filepath.Join(dir, "known_hosts"), "@cert-authority * "+string(ssh.MarshalAuthorizedKey(r.auth.Hosts.Keys()[0])))
	write(t, filepath.Join(dir, "config"), config)
	return []string{"-F", filepath.Join(dir, "config")}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenSSH(t *testing.T) {
	r := newRig(t)
	for _, tc := range []struct{ why, lines string }{
		{"ProxyCommand names the node in a subsystem", "  ProxyCommand ssh -F $CONFIG -s proxy proxy:%h:%p\n"},
		{"ProxyCommand with the cluster's name", "  ProxyCommand ssh -F $CONFIG -s proxy proxy:%h:%p@main\n"},
		{"ProxyJump opens direct-tcpip", "  ProxyJump proxy\n"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			args := r.openssh(t, tc.lines)
			out, err := exec.Command("ssh", append(args, "node", "echo out; echo err >&2; exit 3")...).CombinedOutput()
			if code := exitCode(err); code != 3 || !strings.Contains(string(out), "out\n") || !strings.Contains(string(out), "err\n") {
				t.Fatalf("exit %d, output %q, want 3 and both lines", code, out)
			}
			out, err = exec.Command("ssh", append(args, "-tt", "node", "tty; echo $SSH_SESSION_ID")...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "/dev/pts/") {
				t.Fatalf("with a terminal: %v, output %q", err, out)
			}
		})
	}
}

func TestOpenSSHUnknownNode(t *testing.T) {
	r := newRig(t)
	const unknown = "cccccccc-0000-4000-8000-000000000001"
	args := r.openssh(t, "  ProxyCommand ssh -F $CONFIG -s proxy proxy:"+unknown+":0\n")
	out, err := exec.Command("ssh", append(args, "node", "true")...).CombinedOutput()
	if exitCode(err) != 255 || !strings.Contains(string(out), "unable to locate node matching UUID-like target "+unknown) || !strings.Contains(string(out), "subsystem request failed") {
		t.Fatalf("exit %v, output %q", err, out)
	}
}

func TestSFTP(t *testing.T) {
	r := newRig(t)
	args := r.openssh(t, "  ProxyJump proxy\n")
	if _, err := exec.LookPath("sftp"); err != nil {
		t.Skip("sftp is not installed")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "from"), "carried")
	cmd := exec.Command("sftp", append(args, "-b", "-", "node")...)
	cmd.Stdin = strings.NewReader(fmt.Sprintf("put %s/from %s/to\n", dir, dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sftp: %v, output %q", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "to")); err != nil || string(got) != "carried" {
		t.Fatalf("read %q, %v", got, err)
	}
}

func exitCode(err error) int {
	if e, ok := err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}
