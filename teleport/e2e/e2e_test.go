// Package e2e tries a whole installation on the embedded cluster: chart, tctl in its pod, agents, sessions, audit,
// Kubernetes, an upgrade. Its tests are skipped where kubelite was not built.
package e2e

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/clusters/embedded"
	"shakedown.dev/shakedown/teleport/etcd"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/lab"
	"shakedown.dev/shakedown/teleport/tctl"
)

const (
	// programsEnv names a folder with the real teleport and tctl, and chartEnv the teleport-cluster chart, to try
	// instead of the stand-in.
	programsEnv = "SHAKEDOWN_TELEPORT"
	chartEnv    = "SHAKEDOWN_TELEPORT_CHART"
	// authsEnv set to 2 tries the real one with two auths, which share an etcd.
	authsEnv = "SHAKEDOWN_AUTHS"
	// clusterEnv names an embedded cluster that is up already, and is left up.
	clusterEnv = "SHAKEDOWN_CLUSTER"

	release   = "teleport"
	namespace = "teleport"
)

// system is what is tried.
type system struct {
	chart    helm.Ref
	image    string // repository
	version  string
	next     string // version to upgrade to
	programs string
	author   helm.Values
	over     helm.Values // what the upgrade changes besides the version
	etcd     etcd.Etcd   // zero: none is brought
}

// underTest is the stand-in, or the real Teleport if the environment names it.
func underTest(t *testing.T) system {
	t.Helper()
	if programs := os.Getenv(programsEnv); programs != "" {
		chart := os.Getenv(chartEnv)
		if chart == "" {
			t.Fatalf("%s is set, %s is not", programsEnv, chartEnv)
		}
		s := system{
			chart: helm.Ref{Chart: chart}, image: "public.ecr.aws/gravitational/teleport", version: "13.0.0-dev", next: "13.0.0-dev", programs: programs,
			author: helm.Values{"proxy": helm.Values{"highAvailability": helm.Values{"replicaCount": 2, "minReadySeconds": 2}}, "terminationGracePeriodSeconds": 40},
			over:   helm.Values{"log": helm.Values{"level": "DEBUG"}}, // another configuration rolls the pods
		}
		if os.Getenv(authsEnv) == "2" {
			s.etcd = etcd.Etcd{Namespace: namespace, Run: "e2e", ProxyToken: "token-of-the-proxies-in-a-lab"}
			s.author = helm.Merge(helm.Merge(s.etcd.Values(), s.author), helm.Set(helm.Values{"replicaCount": 2, "minReadySeconds": 2}, "auth", "highAvailability"))
		}
		return s
	}
	return system{
		chart: helm.Ref{Chart: helm.Standin, Version: "1.0.0"}, image: "shakedown.dev/standin", version: "1.0.0", next: "1.1.0", programs: standin(t),
		author: helm.Values{
			"auth":        helm.Values{"highAvailability": helm.Values{"replicaCount": 2, "minReadySeconds": 2}},
			"proxy":       helm.Values{"highAvailability": helm.Values{"replicaCount": 2, "minReadySeconds": 2}},
			"preStopWait": "2s", "probes": helm.Values{"initialDelaySeconds": 1, "periodSeconds": 1}, "standin": helm.Values{"timeFactor": 10},
		},
		over: helm.Values{},
	}
}

func standin(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "standin"), "shakedown.dev/shakedown/standin/cmd/standin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the stand-in: %v\n%s", err, out)
	}
	for _, name := range []string{"teleport", "tctl"} {
		if err := os.Link(filepath.Join(folder, "standin"), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// image makes a folder of programs an image of the embedded cluster that starts as the real one does.
func image(t *testing.T, programs string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"teleport", "tctl", "standin"} {
		data, err := os.ReadFile(filepath.Join(programs, name))
		if os.IsNotExist(err) && name == "standin" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	spec := "mountPath: /opt/teleport/bin\nentrypoint: [/opt/teleport/bin/teleport, start, -c, /etc/teleport/teleport.yaml]\nenv: {PATH: /opt/teleport/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}\n"
	if err := os.WriteFile(filepath.Join(folder, "image.yaml"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	return "host:" + folder
}

// world is a cluster with everything that works on it.
type world struct {
	system
	cluster clusters.Cluster
	config  *rest.Config
	kube    kubernetes.Interface
	helm    *helm.Client
	tctl    tctl.Tctl
	facts   lab.Facts
}

func bringUp(t *testing.T) world {
	t.Helper()
	w := world{system: underTest(t)}
	w.cluster = clusterFor(t, []clusters.Image{
		{Name: w.image, Source: image(t, w.programs)},
		{Name: w.image + ":*", Source: image(t, w.programs)},
	})
	var err error
	if w.config, err = w.cluster.RESTConfig(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.kube, err = kubernetes.NewForConfig(w.config); err != nil {
		t.Fatal(err)
	}
	if w.helm, err = helm.New(w.config, namespace, "e2e", slog.New(slog.NewTextHandler(io.Discard, nil))); err != nil {
		t.Fatal(err)
	}
	run, err := tctl.Pods{Config: w.config, Namespace: namespace, Release: release}.Runner()
	if err != nil {
		t.Fatal(err)
	}
	w.tctl = tctl.Tctl{Run: run}
	if w.facts, err = lab.Look(t.Context(), w.kube, release, namespace, false); err != nil {
		t.Fatal(err)
	}
	w.facts.Standin = w.chart.Builtin()
	if w.facts.AgentToken, err = lab.NewToken(); err != nil {
		t.Fatal(err)
	}
	return w
}

func clusterFor(t *testing.T, images []clusters.Image) clusters.Cluster {
	t.Helper()
	provider := &embedded.Provider{}
	if name := os.Getenv(clusterEnv); name != "" {
		c, err := clusters.Find(t.Context(), provider, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range images {
			if err := c.(clusters.ImageAdder).AddImage(t.Context(), image); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	kubelite, err := filepath.Abs("../../bin/kubelite")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kubelite); err != nil {
		t.Skip("needs a cluster, and kubelite is not built: make build")
	}
	provider.Kubelite = kubelite
	spec := clusters.Spec{Name: "e2e-teleport", Nodes: 2, Images: images}
	c, err := provider.Up(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := provider.Down(ctx, spec.Name); err != nil {
			t.Error(err)
		}
	})
	return c
}
