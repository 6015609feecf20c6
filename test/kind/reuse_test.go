package kind

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKindReuse runs on a cluster that is kept: it stays, and what runs leave in it does not.
func TestKindReuse(t *testing.T) {
	needsKind(t)
	before := things(t)
	name := fmt.Sprintf("kept-%d", os.Getpid())
	reuse := func(more ...string) []string {
		return append(append([]string{"run", "steady", "--reuse", name, "--seed", "1", "--progress", "plain", "--out", t.TempDir()}, flags()...), more...)
	}
	if out, code := shakedown(t.Context(), t, reuse()...); code != 64 || !strings.Contains(out, "no such cluster") {
		t.Errorf("a cluster that is not there: exit status %d, want 64\n%s", code, out)
	}
	must(t, append([]string{"cluster", "up", "--name", name, "--nodes", "3", "--node-monitor-grace", "16s", "--progress", "plain"}, flags()...)...)
	t.Cleanup(func() {
		if out, code := shakedown(context.Background(), t, "cluster", "down", "--cluster", "kind", "--name", name); code != 0 {
			t.Errorf("down: %s", out)
		}
		nothingLeft(t, before)
	})
	if out, code := shakedown(t.Context(), t, reuse("--set", "cluster.nodes=2")...); code != 64 || !strings.Contains(out, "nodes is 3, not 2") {
		t.Errorf("another shape: exit status %d, want 64 and what differs\n%s", code, out)
	}
	namespaces := inCluster(t, name, "get", "namespaces", "-o", "name")

	killed := exec.Command(program, reuse()...)
	said := &watched{want: "Making users", seen: make(chan struct{})}
	killed.Stdout, killed.Stderr = said, said
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- killed.Wait() }()
	select {
	case <-said.seen:
	case err := <-ended:
		t.Fatalf("it ended (%v) before it had installed anything:\n%s", err, said.said.String())
	}
	if out, code := shakedown(t.Context(), t, reuse()...); code != 64 || !strings.Contains(out, "is using it") {
		t.Errorf("two runs at once: exit status %d, want 64\n%s", code, out)
	}
	if err := killed.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
	awaitUnclaimed(t, name)

	out, code := shakedown(t.Context(), t, reuse()...)
	t.Log(out)
	if code != 0 && code != 2 {
		t.Errorf("exit status %d, want 0, or 2 on a busy machine", code)
	}
	if !strings.Contains(out, "Taking away what run") {
		t.Error("what the killed run had installed was not taken away first")
	}
	if now := inCluster(t, name, "get", "namespaces", "-o", "name"); now != namespaces {
		t.Errorf("namespaces are %s, before %s", now, namespaces)
	}
	if now := inCluster(t, name, "get", "leases", "-n", "kube-system", "-o", "name"); strings.Contains(now, "shakedown") {
		t.Errorf("leases are %s", now)
	}
	if len(listed(t, name).Nodes) != 4 {
		t.Errorf("the cluster does not stay as it was: %+v", listed(t, name))
	}
}

// inCluster is what kubectl on the control plane says.
func inCluster(t *testing.T, cluster string, args ...string) string {
	t.Helper()
	return output(t, append([]string{"docker", "exec", cluster + "-control-plane", "kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...)
}

// awaitUnclaimed waits until the claim of a dead run is over.
func awaitUnclaimed(t *testing.T, cluster string) {
	t.Helper()
	var lease struct {
		Spec struct {
			LeaseDurationSeconds int
			RenewTime            time.Time
		}
	}
	if err := json.Unmarshal([]byte(inCluster(t, cluster, "get", "lease", "shakedown-claim", "-n", "kube-system", "-o", "json")), &lease); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(lease.Spec.RenewTime.Add(time.Duration(lease.Spec.LeaseDurationSeconds)*time.Second)) + time.Second)
}
