package app

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/internal/loopback"
)

// BenchmarkIdle tells how soon a proxy process is ready and how much of it is
// resident when it has nothing to do. The bounds of the stand-in are 300 ms and
// 25 MB.
func BenchmarkIdle(b *testing.B) {
	dir := b.TempDir()
	bin := filepath.Join(dir, "teleport")
	if out, err := exec.Command("go", "build", "-o", bin, "../cmd/standin").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	free, err := loopback.Addresses(4)
	if err != nil {
		b.Fatal(err)
	}
	auth, web := free[0], free[1]
	idle(b, bin, dir, free[2], "auth", fmt.Sprintf("auth_service: {enabled: yes, listen_addr: %s, cluster_name: c, tokens: ['proxy:t']}\nproxy_service: {enabled: no}\n", auth))
	var ready time.Duration
	var resident float64
	for b.Loop() {
		cmd, took := idle(b, bin, dir, free[3], "proxy", fmt.Sprintf("auth_service: {enabled: no}\nproxy_service: {enabled: yes, web_listen_addr: %s}\n", web), "auth_server: "+auth, "auth_token: t")
		ready += took
		time.Sleep(4 * time.Second) // what starting needed has gone by then
		resident += residentMB(b, cmd.Process.Pid)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	b.ReportMetric(float64(ready.Milliseconds())/float64(b.N), "ms/ready")
	b.ReportMetric(resident/float64(b.N), "MB/resident")
	b.ReportMetric(0, "ns/op")
}

// idle starts a process and waits until it is ready.
func idle(b *testing.B, bin, dir, diag, name, services string, global ...string) (*exec.Cmd, time.Duration) {
	b.Helper()
	path := filepath.Join(dir, name+".yaml")
	text := fmt.Sprintf("version: v3\nteleport: {%s}\nssh_service: {enabled: no}\n%s", strings.Join(append(global, "data_dir: "+filepath.Join(dir, name)), ", "), services)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(bin, "start", "-c", path, "--diag-addr="+diag)
	started := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill() })
	for time.Since(started) < 20*time.Second {
		if resp, err := http.Get("http://" + diag + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return cmd, time.Since(started)
			}
		}
		time.Sleep(time.Millisecond)
	}
	b.Fatalf("%s is not ready", name)
	return nil, 0
}

func residentMB(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skip("resident memory is read from /proc")
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kb float64
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		b.Fatal(err)
	}
	return kb / 1024
}
