package kind

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

func TestStep(t *testing.T) {
	for _, row := range []struct {
		why, says string
		want      clusters.Step
		ok        bool
	}{
		{"a step begins", " • Preparing nodes 📦 📦  ...\n", clusters.Step{Name: "kind: Preparing nodes", State: clusters.StepStarted}, true},
		{"it ends well", " ✓ Preparing nodes 📦 📦 \n", clusters.Step{Name: "kind: Preparing nodes", State: clusters.StepDone}, true},
		{"it fails", " ✗ Starting control-plane 🕹️\n", clusters.Step{Name: "kind: Starting control-plane", State: clusters.StepFailed}, true},
		{"anything else is no step", "Creating cluster \"kind\" ...\n", clusters.Step{}, false},
	} {
		got, ok := step(row.says)
		if got != row.want || ok != row.ok {
			t.Errorf("%s: %+v, %t", row.why, got, ok)
		}
	}
}

func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kind.yaml")
	for _, row := range []struct {
		why, text string
		spec      clusters.Spec
		roles     string
		says      string
	}{
		{"nodes are workers beside a control plane", "", clusters.Spec{Nodes: 3}, "control-plane worker worker worker", ""},
		{"a file without workers gets them", "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n", clusters.Spec{Nodes: 1}, "control-plane worker", ""},
		{"a file with as many is taken as it is", "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: [{role: worker}, {role: control-plane}]\n", clusters.Spec{Nodes: 1}, "worker control-plane", ""},
		{"another number is an error", "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: [{role: control-plane}, {role: worker}]\n", clusters.Spec{Nodes: 3}, "", "has 1 workers, and 3 nodes are asked for"},
		{"a misspelt field is named", "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnode: []\n", clusters.Spec{Nodes: 3}, "", `unknown field "node"`},
		{"another kind of file is refused", "kind: Scenario\napiVersion: kind.x-k8s.io/v1alpha4\n", clusters.Spec{Nodes: 3}, "", `kind "Scenario"`},
	} {
		p := &Provider{}
		if row.text != "" {
			p.Config = file
			if err := os.WriteFile(file, []byte(row.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := p.config(row.spec)
		if row.says != "" {
			if err == nil || !strings.Contains(err.Error(), row.says) || !strings.Contains(err.Error(), file) || exit.CodeOf(err) != exit.Usage {
				t.Errorf("%s: %v", row.why, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", row.why, err)
			continue
		}
		if roles := roles(got); roles != row.roles {
			t.Errorf("%s: %s, want %s", row.why, roles, row.roles)
		}
	}
}

func roles(c *v1alpha4.Cluster) string {
	var all []string
	for _, n := range c.Nodes {
		all = append(all, string(n.Role))
	}
	return strings.Join(all, " ")
}

func TestSameShape(t *testing.T) {
	have := clusters.Spec{Name: "a", Nodes: 3, NodeMonitorGrace: 16 * time.Second}
	want := have
	want.Images = []clusters.Image{{Name: "x", Source: "y"}}
	if err := sameShape(have, want); err != nil {
		t.Errorf("images can be added: %v", err)
	}
	want.Nodes = 2
	if err := sameShape(have, want); !errors.Is(err, clusters.ErrDifferent) || !strings.Contains(err.Error(), "nodes is 3, not 2") {
		t.Errorf("fewer nodes: %v", err)
	}
	err := sameShape(have, want, "node image is a, not b")
	if says := "(node image is a, not b; nodes is 3, not 2)"; err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want one sentence that says %s", err, says)
	}
}

func TestAnotherConfigurationIsAnotherShape(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kind.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("kind: Cluster")
	have, err := digest(file)
	if err != nil || have == "" {
		t.Fatal(have, err)
	}
	g := &gateway{config: have}
	for _, row := range []struct {
		why, config, text string
		differs           int
	}{
		{"the same file", file, "kind: Cluster", 0},
		{"another text", file, "kind: Cluster\n", 1},
		{"nothing is asked for", "", "", 0},
	} {
		write(row.text)
		differs, err := (&Provider{Config: row.config}).otherNodes(t.Context(), g)
		if err != nil || len(differs) != row.differs {
			t.Errorf("%s: %v, %v", row.why, differs, err)
		}
	}
}

func TestExplain(t *testing.T) {
	for says, hint := range map[string]string{
		`exec: "docker": executable file not found in $PATH`:                                                        "--cluster embedded",
		"permission denied while trying to connect to the Docker daemon socket":                                     "usermod",
		"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?":         "DOCKER_HOST",
		"Bind for 127.0.0.1:6443 failed: port is already allocated":                                                 "leave the port",
		"write /var/lib/docker/tmp/x: no space left on device":                                                      "prune",
		`failed to create cluster: failed to pull image "kindest/node:v1": exit status 1`:                           "--node-image",
		`Conflict. The container name "/a-gateway" is already in use by container "f3"`:                             "another --name",
		"Error response from daemon: pull access denied for nobody/knows, repository does not exist or may require": "docker login",
	} {
		err := explain(&commandError{args: []string{"version"}, said: says, err: errors.New("exit status 1")})
		if got := exit.HintOf(err); !strings.Contains(got, hint) || !strings.Contains(err.Error(), says[:20]) {
			t.Errorf("%s: %v (%s)", says, err, got)
		}
	}
	if err := errors.New("something else"); explain(err) != err {
		t.Error("what is not known is not explained")
	}
}

func TestSourceOf(t *testing.T) {
	images := []clusters.Image{
		{Name: "public.ecr.aws/gravitational/*", Source: "glob"},
		{Name: "public.ecr.aws/gravitational/teleport", Source: "repository"},
		{Name: "public.ecr.aws/gravitational/teleport:13.0.1", Source: "tag"},
		{Name: "app", Source: "short"},
	}
	for name, want := range map[string]string{
		"public.ecr.aws/gravitational/teleport:13.0.1":       "tag",
		"public.ecr.aws/gravitational/teleport:13.0.0":       "repository",
		"public.ecr.aws/gravitational/teleport-distroless:1": "glob",
		"app:1": "short", "docker.io/library/app:2": "short",
		"else:1": "",
	} {
		if got, ok := sourceOf(images, name); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t, want %q", name, got, ok, want)
		}
	}
}

func TestCutOff(t *testing.T) {
	all := []clusters.Node{{Name: "a", Address: "10.0.0.1", PodCIDR: "10.1.0.0/24"}, {Name: "b", Address: "10.0.0.2", PodCIDR: "10.1.1.0/24"}, {Name: "api-node", Address: "10.0.0.3"}}
	for _, row := range []struct {
		why  string
		from []string
		want []string
		says string
	}{
		{"from all others", nil, []string{"10.0.0.2", "10.1.1.0/24", "10.0.0.3"}, ""},
		{"from one", []string{"b"}, []string{"10.0.0.2", "10.1.1.0/24"}, ""},
		{"api is the node that it is on", []string{"api"}, []string{"10.0.0.3"}, ""},
		{"not from itself", []string{"a"}, nil, "want api or another node"},
		{"nor from nobody", []string{"z"}, nil, `"z"`},
	} {
		got, err := cutOff(all, "api-node", "a", row.from)
		if row.says != "" {
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%s: %v", row.why, err)
			}
		} else if diff := cmp.Diff(row.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", row.why, err, diff)
		}
	}
}

func TestAbsolute(t *testing.T) {
	for given, want := range map[string]string{
		"10.0.0.1:80": "10.0.0.1:80", "proxy.teleport.svc:443": "proxy.teleport.svc.cluster.local.:443",
		"proxy.teleport:443": "proxy.teleport.svc.cluster.local.:443", "proxy.teleport.svc.cluster.local:443": "proxy.teleport.svc.cluster.local.:443",
		"example.org.:1": "example.org.:1", "registry.example.org:1": "registry.example.org:1",
	} {
		if got, err := absolute(given); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", given, got, err, want)
		}
	}
}

func TestFolderImage(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("standin", "program", 0o755)
	if err := os.Link(filepath.Join(dir, "standin"), filepath.Join(dir, "teleport")); err != nil {
		t.Fatal(err)
	}
	write("image.yaml", "mountPath: /opt/bin\nentrypoint: [/opt/bin/teleport]\nenv: {B: \"2\", A: \"1\"}\n", 0o644)
	image, err := fromFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A=1", "B=2"}, config.Config.Env); diff != "" || config.Architecture != runtime.GOARCH || len(config.RootFS.DiffIDs) != 1 {
		t.Errorf("configuration: %+v %s", config, diff)
	}
	want := map[string]string{"etc/": "", "tmp/": "", "etc/passwd": "", "opt/bin/standin": "", "opt/bin/teleport": "opt/bin/standin"}
	if diff := cmp.Diff(want, entries(t, image)); diff != "" {
		t.Error(diff)
	}
	write("image.yaml", "entrypont: []\n", 0o644)
	if _, err := fromFolder(dir); err == nil || !strings.Contains(err.Error(), "entrypont") {
		t.Errorf("a misspelt key: %v", err)
	}
}

// entries are the names in an image's only layer, with the names that they are links to.
func entries(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := map[string]string{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = h.Linkname
	}
}

func TestFolderImageWithoutLoader(t *testing.T) {
	sh, err := exec.LookPath("ls")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("no dynamically linked program to try")
	}
	dir := t.TempDir()
	text, err := os.ReadFile(sh)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ls"), text, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := fromFolder(dir); err == nil || !strings.Contains(err.Error(), "linked dynamically") {
		t.Errorf("a program that needs a loader: %v", err)
	}
}
