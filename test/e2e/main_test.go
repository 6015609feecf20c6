// Package e2e runs the embedded cluster for real. The tests need a Linux kernel
// with namespaces, nft, and bin/kubelite, which `make build` makes; they share
// one cluster, each in a namespace of its own, and those that break something
// bring a cluster of their own.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/e2e-framework/klient"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/clusters/embedded"
)

// appImage is the image of test/e2e/app; hostImage is this machine's root.
const (
	appImage  = "shakedown.dev/test/app:1"
	hostImage = "shakedown.dev/host"
)

var (
	testenv  env.Environment
	provider *embedded.Provider
	shared   clusters.Cluster
	appDir   string
	skip     string // why nothing can be tested here, or empty
)

func TestMain(m *testing.M) {
	testenv = env.New()
	testenv.Setup(buildApp, func(ctx context.Context, cfg *envconf.Config) (context.Context, error) {
		var err error
		shared, err = up(ctx, uniqueName("e2e"))
		if err != nil {
			return ctx, err
		}
		return ctx, useCluster(ctx, cfg, shared)
	})
	testenv.Finish(func(ctx context.Context, _ *envconf.Config) (context.Context, error) {
		defer os.RemoveAll(appDir)
		defer os.RemoveAll(appDir + "-program")
		return ctx, provider.Down(ctx, shared.Name())
	})
	kubelite, err := filepath.Abs("../../bin/kubelite")
	if err == nil {
		_, err = os.Stat(kubelite)
	}
	if err != nil {
		fmt.Println("end-to-end tests need bin/kubelite:", err, "(make build)")
		os.Exit(1)
	}
	provider = &embedded.Provider{Kubelite: kubelite}
	os.Exit(testenv.Run(m))
}

// uniqueName lets two runs of the tests stand side by side.
func uniqueName(prefix string) string { return fmt.Sprintf("%s-%d", prefix, os.Getpid()) }

// up brings a cluster of three nodes up that dies with this process.
func up(ctx context.Context, name string, change ...func(*clusters.Spec)) (clusters.Cluster, error) {
	spec := clusters.Spec{
		Name: name, Nodes: 3, NodeMonitorGrace: 6 * time.Second,
		Images: []clusters.Image{{Name: "shakedown.dev/test/app", Source: "host:" + appDir}},
	}
	for _, c := range change {
		c(&spec)
	}
	return provider.Up(ctx, spec)
}

// buildApp makes the folder that host: lays over this machine's root.
func buildApp(ctx context.Context, _ *envconf.Config) (context.Context, error) {
	var err error
	if appDir, err = os.MkdirTemp("", "shakedown-app-"); err != nil {
		return ctx, err
	}
	if err := os.Chmod(appDir, 0o755); err != nil {
		return ctx, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(appDir, "app"), "./app")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return ctx, fmt.Errorf("build test/e2e/app: %w\n%s", err, out)
	}
	spec := "entrypoint: [/usr/local/bin/app]\nmountPath: /usr/local/bin\n"
	return ctx, os.WriteFile(filepath.Join(appDir, "image.yaml"), []byte(spec), 0o644)
}

func useCluster(ctx context.Context, cfg *envconf.Config, c clusters.Cluster) error {
	rc, err := c.RESTConfig(ctx)
	if err != nil {
		return err
	}
	client, err := klient.New(rc)
	if err != nil {
		return err
	}
	cfg.WithClient(client)
	return nil
}

// restConfig is the shared cluster's, for what the framework's client lacks.
func restConfig(t *testing.T, c clusters.Cluster) *rest.Config {
	t.Helper()
	rc, err := c.RESTConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rc
}

func clientset(t *testing.T, c clusters.Cluster) *kubernetes.Clientset {
	t.Helper()
	cs, err := kubernetes.NewForConfig(restConfig(t, c))
	if err != nil {
		t.Fatal(err)
	}
	return cs
}
