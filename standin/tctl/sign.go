package tctl

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gravitational/teleport/api/identityfile"
	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/standin/authclient"
	"shakedown.dev/shakedown/standin/ca"
	"shakedown.dev/shakedown/standin/flags"
	"shakedown.dev/shakedown/standin/rpc"
)

// signOptions are the flags of `tctl auth sign`.
type signOptions struct {
	user, host, out, format    string
	proxy, kubeCluster, compat string
	ttl                        time.Duration
	overwrite, tar             bool
	keyType                    string // ed25519, or rsa as 13.0.0-dev has it
}

const maxSignTTL = 12 * time.Hour

func parseSign(args []string) (signOptions, error) {
	o := signOptions{format: "file", ttl: maxSignTTL, keyType: cmp.Or(os.Getenv("STANDIN_KEY_TYPE"), "ed25519")}
	_, err := flags.Parse(args, []flags.Flag{
		{Name: "user", Text: &o.user}, {Name: "host", Text: &o.host}, {Name: "out", Short: "o", Text: &o.out, Required: true},
		{Name: "format", Text: &o.format}, {Name: "ttl", Duration: &o.ttl}, {Name: "proxy", Text: &o.proxy},
		{Name: "kube-cluster-name", Text: &o.kubeCluster}, {Name: "compat", Text: &o.compat},
		{Name: "overwrite", Switch: &o.overwrite}, {Name: "tar", Switch: &o.tar},
		{Name: "key-type", Text: &o.keyType}, {Name: "leaf-cluster", Text: new(string)}, {Name: "kube-cluster", Text: new(string)},
	})
	if err != nil {
		return o, err
	}
	if !slices.Contains([]string{"file", "openssh", "kubernetes", "tls"}, o.format) {
		return o, fmt.Errorf("unsupported --format %q, the stand-in has file, openssh, kubernetes, tls", o.format)
	}
	if o.keyType != "ed25519" && o.keyType != "rsa" {
		return o, fmt.Errorf("unknown --key-type %q, allowed are ed25519, rsa", o.keyType)
	}
	switch {
	case o.user != "" && o.host != "":
		return o, errors.New("--user and --host may not be given together")
	case o.user == "" && o.host == "":
		return o, errors.New("--user or --host must be specified")
	}
	return o, nil
}

// file is one file to write.
type file struct {
	name string
	data []byte
}

// material is what was signed, in the forms that files need.
type material struct {
	key, ssh, tls []byte
	authorities   *authclient.Authorities
	cluster       string
}

// sign is `tctl auth sign`.
func (t *tool) sign(ctx context.Context, args []string) error {
	o, err := parseSign(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	files, err := t.signFiles(ctx, o)
	if err != nil {
		return err
	}
	if o.tar {
		return t.writeTar(files)
	}
	return t.writeFiles(o, files)
}

func (t *tool) signFiles(ctx context.Context, o signOptions) ([]file, error) {
	if o.host != "" {
		return t.signHost(ctx, o)
	}
	var err error
	if o.format == "kubernetes" {
		err = t.completeKube(ctx, &o)
	} else {
		t.noteUnused(o)
	}
	if err != nil {
		return nil, err
	}
	m, err := t.signUser(ctx, o)
	if err != nil {
		return nil, err
	}
	switch o.format {
	case "openssh":
		return []file{{o.out, m.key}, {o.out + "-cert.pub", m.ssh}}, nil
	case "tls":
		return []file{{o.out + ".key", m.key}, {o.out + ".crt", m.tls}, {o.out + ".cas", m.authorities.HostTLSPEM}}, nil
	case "kubernetes":
		return t.kubeconfig(ctx, o, m)
	}
	return m.identityFile(o)
}

func (t *tool) noteUnused(o signOptions) {
	for name, value := range map[string]string{"proxy": o.proxy, "kube-cluster-name": o.kubeCluster} {
		if value != "" {
			fmt.Fprintf(t.Out, "Note: --%s is only used with --format=\"kubernetes\", ignoring for --format=%q\n", name, o.format)
		}
	}
}

func (t *tool) signUser(ctx context.Context, o signOptions) (*material, error) {
	key, keyPEM, err := newKey(o)
	if err != nil {
		return nil, err
	}
	sshKey, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	tlsKey, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	resp, err := rpc.Call[rpc.SignUserResponse](ctx, t.remote.Conn(), "SignUser", &rpc.SignUserRequest{
		User: o.user, TTL: o.ttl, SSHKey: ssh.MarshalAuthorizedKey(sshKey), TLSKey: tlsKey, KubeCluster: o.kubeCluster,
	})
	if err != nil {
		return nil, err
	}
	if allowed := time.Until(resp.Expires); o.ttl-allowed > time.Minute {
		return nil, fmt.Errorf("The credential was not issued because the requested TTL of %s exceeded the maximum allowed value of %s. To successfully request a credential, please reduce the requested TTL.", o.ttl, allowed.Round(time.Second))
	}
	authorities, err := t.remote.Authorities(ctx)
	if err != nil {
		return nil, err
	}
	return &material{key: keyPEM, ssh: resp.SSHCert, tls: resp.TLSCert, authorities: authorities, cluster: t.remote.Identity().Cluster}, nil
}

// newKey makes a key. For OpenSSH it is written in OpenSSH's own format, because
// older ones do not read Ed25519 in PKCS#8.
func newKey(o signOptions) (crypto.Signer, []byte, error) {
	if o.keyType == "rsa" {
		return ca.NewRSAKey()
	}
	key, keyPEM, err := ca.NewKey()
	if err != nil || o.format != "openssh" {
		return key, keyPEM, err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	return key, pem.EncodeToMemory(block), err
}

// identityFile is the format of `--format=file` (api/identityfile).
func (m *material) identityFile(o signOptions) ([]file, error) {
	id := &identityfile.IdentityFile{
		PrivateKey: m.key,
		Certs:      identityfile.Certs{SSH: m.ssh, TLS: m.tls},
		CACerts:    identityfile.CACerts{TLS: [][]byte{m.authorities.HostTLSPEM}},
	}
	for _, key := range m.authorities.HostSSH {
		line := fmt.Sprintf("@cert-authority %s,*.%s %s type=host\n", m.cluster, m.cluster, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))))
		id.CACerts.SSH = append(id.CACerts.SSH, []byte(line))
	}
	b, err := identityfile.Encode(id)
	return []file{{o.out, b}}, err
}

// signHost is `tctl auth sign --host=NAME[,NAME…] --format=openssh`.
func (t *tool) signHost(ctx context.Context, o signOptions) ([]file, error) {
	if o.format != "openssh" {
		return nil, fmt.Errorf("invalid --format flag %q, only openssh is supported with --host", o.format)
	}
	key, keyPEM, err := newKey(o)
	if err != nil {
		return nil, err
	}
	sshKey, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	cert, err := t.remote.SignHost(ctx, sshKey, flatten([]string{o.host}))
	if err != nil {
		return nil, err
	}
	return []file{{o.out, keyPEM}, {o.out + "-cert.pub", ssh.MarshalAuthorizedKey(cert)}}, nil
}

func (t *tool) writeFiles(o signOptions, files []file) error {
	var names, existing []string
	for _, f := range files {
		names = append(names, f.name)
		if _, err := os.Stat(f.name); err == nil && o.format != "kubernetes" {
			existing = append(existing, f.name)
		}
	}
	if len(existing) > 0 && !o.overwrite {
		fmt.Fprintf(t.Out, "Destination file(s) %s exist. Overwrite? [y/N]: ", strings.Join(existing, ", "))
		answer, _ := bufio.NewReader(t.In).ReadString('\n')
		if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
			return fmt.Errorf("not overwriting destination files %s", strings.Join(existing, ", "))
		}
	}
	for _, f := range files {
		if err := os.WriteFile(f.name, f.data, identityfile.FilePermissions); err != nil {
			return err
		}
	}
	fmt.Fprintf(t.Out, "\nThe credentials have been written to %s\n", strings.Join(names, ", "))
	return nil
}

func (t *tool) writeTar(files []file) error {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.data)), ModTime: time.Now()}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	_, err := t.Out.Write(buf.Bytes())
	return err
}
