package tctl

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"shakedown.dev/shakedown/teleport/identity"
)

// Tctl is what we do with the tool. All of it may be repeated.
type Tctl struct{ Run Runner }

// Role is a role for load: every node, every pod, the audit log.
type Role struct {
	Name          string
	Logins        []string
	MaxTTL        time.Duration // zero: 30 h, the most Teleport gives
	RecordSession string        // strict or best_effort: what becomes of a session that cannot be recorded; empty: Teleport's default
}

// document is the role as Teleport reads it. Version v5 is known to Teleport 9 and all later ones.
func (r Role) document() map[string]any {
	ttl := r.MaxTTL
	if ttl == 0 {
		ttl = 30 * time.Hour
	}
	options := map[string]any{"max_session_ttl": ttl.String(), "forward_agent": true, "port_forwarding": true}
	if r.RecordSession != "" {
		options["record_session"] = map[string]any{"default": r.RecordSession}
	}
	every := map[string]any{"*": "*"}
	read := []string{"list", "read"}
	return map[string]any{
		"kind": "role", "version": "v5", "metadata": map[string]any{"name": r.Name},
		"spec": map[string]any{
			"options": options,
			"allow": map[string]any{
				"logins": r.Logins, "node_labels": every,
				"kubernetes_labels": every, "kubernetes_groups": []string{"system:masters"},
				"rules": []any{map[string]any{"resources": []string{"event", "session", "session_tracker", "node", "proxy", "auth_server"}, "verbs": read}},
			},
		},
	}
}

// EnsureRole creates the role, or makes it what it should be.
func (t Tctl) EnsureRole(ctx context.Context, r Role) error {
	return t.create(ctx, r.document())
}

// EnsureUsers creates n users of the role, named prefix-0 and so on, and gives their names. Several, so that no
// limit that counts by user bites first.
func (t Tctl) EnsureUsers(ctx context.Context, prefix string, n int, role string) ([]string, error) {
	names := make([]string, n)
	docs := make([]map[string]any, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
		docs[i] = map[string]any{
			"kind": "user", "version": "v2", "metadata": map[string]any{"name": names[i]},
			"spec": map[string]any{"roles": []string{role}},
		}
	}
	return names, t.create(ctx, docs...)
}

func (t Tctl) create(ctx context.Context, docs ...map[string]any) error {
	var b bytes.Buffer
	for _, doc := range docs {
		text, err := yaml.Marshal(doc)
		if err != nil {
			return err
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	_, err := t.Run(ctx, &b, "create", "-f")
	return err
}

// Token makes a join token for the role ("node") and gives its value.
func (t Tctl) Token(ctx context.Context, role string, ttl time.Duration) (string, error) {
	out, err := t.Run(ctx, nil, "tokens", "add", "--type="+role, "--ttl="+ttl.String(), "--format=text")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// Sign gives new credentials of a user, for SSH, for the auth's API and, where kubeCluster is named, for that
// Kubernetes cluster.
//
// tctl wants to write a file, and what it writes must come back through its standard output. /dev/stdout does
// that in format file, from which all else can be made. In format kubernetes tctl first removes the file: it
// would replace the container's /dev/stdout. Newer ones have --tar, tried if /dev/stdout gave nothing.
func (t Tctl) Sign(ctx context.Context, user string, ttl time.Duration, kubeCluster string) (*identity.Identity, error) {
	args := []string{"auth", "sign", "--user=" + user, "--format=file", "--ttl=" + ttl.String(), "--overwrite"}
	if kubeCluster != "" {
		args = append(args, "--kube-cluster-name="+kubeCluster)
	}
	out, err := t.Run(ctx, nil, append(args, "--out=/dev/stdout")...)
	if err == nil && bytes.Contains(out, []byte("-----BEGIN")) {
		return identity.Parse(out)
	}
	archive, tarErr := t.Run(ctx, nil, append(args, "--out=identity", "--tar")...)
	if tarErr != nil {
		if err == nil {
			err = errors.New("tctl wrote no credentials to its standard output")
		}
		return nil, fmt.Errorf("sign %s: %w", user, err)
	}
	text, err := onlyFile(archive)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", user, err)
	}
	return identity.Parse(text)
}

func onlyFile(archive []byte) ([]byte, error) {
	r := tar.NewReader(bytes.NewReader(archive))
	if _, err := r.Next(); err != nil {
		return nil, fmt.Errorf("tar of tctl: %w", err)
	}
	return io.ReadAll(r)
}

// Node is a registered SSH node.
type Node struct {
	UUID    string
	Host    string
	Labels  map[string]string
	Version string
	Tunnel  bool   // reached through a reverse tunnel
	Address string // where it listens, if it is not
	Expires time.Time
}

// Nodes lists the nodes that have announced themselves. One that died stays listed until it expires, up to
// ten minutes.
func (t Tctl) Nodes(ctx context.Context) ([]Node, error) {
	out, err := t.Run(ctx, nil, "nodes", "ls", "--format=json")
	if err != nil {
		return nil, err
	}
	return parseNodes(out)
}

// Auths lists the auth servers that have announced themselves, as Nodes does: of each its UUID and host name.
func (t Tctl) Auths(ctx context.Context) ([]Node, error) {
	out, err := t.Run(ctx, nil, "get", "auth_server", "--format=json")
	if err != nil {
		return nil, err
	}
	return parseNodes(out)
}

func parseNodes(data []byte) ([]Node, error) {
	var list []struct {
		Metadata struct {
			Name    string            `json:"name"`
			Labels  map[string]string `json:"labels"`
			Expires time.Time         `json:"expires"`
		} `json:"metadata"`
		Spec struct {
			Address  string `json:"addr"`
			Hostname string `json:"hostname"`
			Tunnel   bool   `json:"use_tunnel"`
			Version  string `json:"version"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("tctl nodes ls: %w", err)
	}
	nodes := make([]Node, len(list))
	for i, n := range list {
		nodes[i] = Node{
			UUID: n.Metadata.Name, Host: n.Spec.Hostname, Labels: n.Metadata.Labels, Version: n.Spec.Version,
			Tunnel: n.Spec.Tunnel, Address: n.Spec.Address, Expires: n.Metadata.Expires,
		}
	}
	return nodes, nil
}

// Status is what the cluster says of itself.
type Status struct {
	Cluster string
	Version string
}

var (
	clusterLine = regexp.MustCompile(`(?m)^Cluster\s+(\S+)`)
	versionLine = regexp.MustCompile(`(?m)^Version\s+(\S+)`)
)

// Status asks the auth server for the cluster's name and version.
func (t Tctl) Status(ctx context.Context) (Status, error) {
	out, err := t.Run(ctx, nil, "status")
	if err != nil {
		return Status{}, err
	}
	cluster, version := clusterLine.FindSubmatch(out), versionLine.FindSubmatch(out)
	if cluster == nil || version == nil {
		return Status{}, fmt.Errorf("tctl status says neither cluster nor version: %.100q", out)
	}
	return Status{Cluster: string(cluster[1]), Version: string(version[1])}, nil
}
