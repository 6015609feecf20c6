package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/teleport/pods"
	"shakedown.dev/shakedown/teleport/prometheus"
)

// prometheus lets a real Prometheus scrape the proxies and asks it how many tunnels they have.
func (w world) prometheus(t *testing.T, proxies []pods.Pod) {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Log("Prometheus is left out: the program is not in $PATH (.ci/deps brings it)")
		return
	}
	var targets []string
	for _, p := range proxies {
		targets = append(targets, "'"+w.forwarded(t, net.JoinHostPort(p.IP, pods.DiagPort))+"'")
	}
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := own.Addr().String()
	own.Close()
	folder := t.TempDir()
	config := filepath.Join(folder, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: proxies, static_configs: [{targets: [%s]}]}]\n", strings.Join(targets, ", "))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	source, err := prometheus.Open("http://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		up, err := source.Value(t.Context(), `sum(up{job="proxies"})`, time.Now())
		tunnels, err2 := source.Value(t.Context(), "sum(teleport_reverse_tunnels_connected)", time.Now())
		if err == nil && err2 == nil && int(up.Number) == len(proxies) && tunnels.Found && tunnels.Number > 0 {
			t.Logf("Prometheus counts %.0f tunnels at %.0f proxies", tunnels.Number, up.Number)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Prometheus says %+v proxies are up, with %+v tunnels (%v, %v)", up, tunnels, err, err2)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// forwarded listens on loopback for what is at an address of the cluster.
func (w world) forwarded(t *testing.T, address string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			go w.pass(near, address)
		}
	}()
	return ln.Addr().String()
}

func (w world) pass(near net.Conn, address string) {
	defer near.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	far, err := w.cluster.DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer far.Close()
	go func() { _, _ = io.Copy(far, near) }()
	_, _ = io.Copy(near, far)
}
