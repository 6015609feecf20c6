package embedded_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/clusters/embedded"
	"shakedown.dev/shakedown/clusters/embedded/embeddedtest"
	"shakedown.dev/shakedown/internal/exit"
)

// provider starts fakes that misbehave as mode says.
func provider(t *testing.T, mode string) *embedded.Provider {
	t.Helper()
	if err := exec.Command("unshare", "--user", "--net", "true").Run(); err != nil && os.Geteuid() != 0 {
		t.Skip("this machine lets ordinary users make no namespaces:", err)
	}
	t.Setenv(embeddedtest.ModeVar, mode)
	return &embedded.Provider{Kubelite: fakeKubelite(t), CacheDir: t.TempDir()}
}

// spec is a cluster that no other test and no other run of the tests has.
func spec(t *testing.T) clusters.Spec {
	name := fmt.Sprintf("%s-%d", strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())), os.Getpid())
	return clusters.Spec{Name: strings.TrimPrefix(name, "test"), Nodes: 2}
}

// up brings a cluster up and takes it down after the test.
func up(t *testing.T, p *embedded.Provider, s clusters.Spec) *embedded.Cluster {
	t.Helper()
	c, err := p.Up(t.Context(), s)
	if err != nil {
		t.Fatalf("Up: %v\n%s", err, exit.HintOf(err))
	}
	t.Cleanup(func() {
		if err := p.Down(context.Background(), s.Name); err != nil {
			t.Error("Down:", err)
		}
	})
	return c.(*embedded.Cluster)
}

// goneWithin fails the test if anything of the cluster is there after the time that its end may take.
func goneWithin(t *testing.T, p *embedded.Provider, name string) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		left := remains(t, p, name)
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("cluster %s is not gone: %s", name, left)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func remains(t *testing.T, p *embedded.Provider, name string) string {
	t.Helper()
	if _, err := clusters.Find(t.Context(), p, name); !errors.Is(err, clusters.ErrNotFound) {
		return fmt.Sprintf("still listed (%v)", err)
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if bytes.Contains(text, []byte("\x00"+name+"\x00")) && bytes.Contains(text, []byte("kubelite")) {
			return file + " is " + string(bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
		}
	}
	entries, err := os.ReadDir(p.CacheDir)
	if err != nil || len(entries) > 0 {
		return fmt.Sprintf("in the cache: %v %v", entries, err)
	}
	return ""
}

func TestUpAndDown(t *testing.T) {
	p := provider(t, "")
	var steps []clusters.Step
	p.Progress = func(s clusters.Step) { steps = append(steps, s) }
	s := spec(t)
	s.Detach, s.HollowNodes = true, 1
	c := up(t, p, s)
	facts, err := c.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []clusters.Node{{Name: "node1", State: "running"}, {Name: "node2", State: "running"}, {Name: "hollow1", State: "running", Hollow: true}}
	if diff := cmp.Diff(want, facts.Nodes); diff != "" {
		t.Error("nodes:", diff)
	}
	if facts.PID <= 1 || syscall.Kill(facts.PID, 0) != nil {
		t.Errorf("pid %d: want that of kubelite as seen from here", facts.PID)
	}
	if facts.Version != embeddedtest.Version || facts.Limits.Hold || facts.Limits.Why == "" {
		t.Errorf("facts %+v", facts)
	}
	if len(steps) != 2 || steps[0].State != clusters.StepStarted || steps[1].State != clusters.StepDone {
		t.Errorf("steps %v: want the start and the end of one", steps)
	}
	config, err := c.RESTConfig(t.Context())
	if err != nil || config.Host != facts.APIServer {
		t.Errorf("RESTConfig: %v, %v; want %s", config, err, facts.APIServer)
	}
	if err := p.Down(t.Context(), s.Name); err != nil {
		t.Fatal(err)
	}
	if left := remains(t, p, s.Name); left != "" {
		t.Error("after Down:", left)
	}
	if _, err := c.Facts(t.Context()); !errors.Is(err, clusters.ErrNotFound) {
		t.Errorf("Facts after Down: %v, want ErrNotFound", err)
	}
}

func TestUpIsIdempotent(t *testing.T) {
	p := provider(t, "")
	s := spec(t)
	first, _ := up(t, p, s).Facts(t.Context())
	again, err := p.Up(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if facts, err := again.Facts(t.Context()); err != nil || facts.PID != first.PID {
		t.Errorf("second Up: pid %d, %v; want the first one's %d", facts.PID, err, first.PID)
	}
	s.Nodes++
	if _, err := p.Up(t.Context(), s); !errors.Is(err, clusters.ErrDifferent) || exit.CodeOf(err) != exit.Usage {
		t.Errorf("Up with another shape: %v", err)
	}
	if err := p.Down(t.Context(), s.Name); err != nil {
		t.Fatal(err)
	}
	if err := p.Down(t.Context(), s.Name); err != nil {
		t.Error("second Down:", err)
	}
}

func TestUpThatFails(t *testing.T) {
	for _, row := range []struct{ why, mode, says, log string }{
		{"a step that fails gives its reason and the log", embeddedtest.ModeFail, "Starting control plane: etcd did not start", "disk is made of cheese"},
		{"a kubelite that dies gives its status and the log", embeddedtest.ModeDie, "kubelite ended (exit status 7)", "panic: oh dear"},
	} {
		t.Run(row.mode, func(t *testing.T) {
			p := provider(t, row.mode)
			s := spec(t)
			_, err := p.Up(t.Context(), s)
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%s: error %v, want %q in it", row.why, err, row.says)
			}
			if hint := exit.HintOf(err); !strings.Contains(hint, row.log) {
				t.Errorf("%s: hint %q, want %q in it", row.why, hint, row.log)
			}
			if left := remains(t, p, s.Name); left != "" {
				t.Error(left)
			}
		})
	}
}

func TestUpInterrupted(t *testing.T) {
	p := provider(t, embeddedtest.ModeHang)
	s := spec(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	p.Progress = func(clusters.Step) { cancel(io.ErrClosedPipe) }
	if _, err := p.Up(ctx, s); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Up: %v, want the cause of the interruption", err)
	}
	if left := remains(t, p, s.Name); left != "" {
		t.Error(left)
	}
}

func TestPortTaken(t *testing.T) {
	p := provider(t, "")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := spec(t)
	s.APIPort = taken.Addr().(*net.TCPAddr).Port
	_, err = p.Up(t.Context(), s)
	if err == nil || !strings.Contains(err.Error(), "is taken") || exit.HintOf(err) == "" {
		t.Errorf("Up: %v (%q)", err, exit.HintOf(err))
	}
	if left := remains(t, p, s.Name); left != "" {
		t.Error(left)
	}
}

func TestKubeliteMissing(t *testing.T) {
	p := provider(t, "")
	p.Kubelite = "/nowhere/kubelite"
	_, err := p.Up(t.Context(), spec(t))
	if err == nil || !strings.Contains(exit.HintOf(err), "make build") {
		t.Errorf("Up: %v (%q)", err, exit.HintOf(err))
	}
}

func TestDownOfADeafCluster(t *testing.T) {
	p := provider(t, embeddedtest.ModeDeaf)
	s := spec(t)
	s.Detach = true
	up(t, p, s)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	// The caller's patience ends the polite part; what is killed is still waited for.
	if err := p.Down(ctx, s.Name); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	goneWithin(t, p, s.Name)
}

// TestKilled proves that the end of any one process is the end of all of them.
func TestKilled(t *testing.T) {
	for _, row := range []struct {
		name, why string
		victim    func(launcher, init int) int
	}{
		{"launcher", "the command that holds the cluster", func(launcher, _ int) int { return launcher }},
		{"init", "the first process of the cluster", func(_, init int) int { return init }},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := provider(t, "")
			s := spec(t)
			if err := syscall.Kill(row.victim(launch(t, p, s.Name)), syscall.SIGKILL); err != nil {
				t.Fatalf("%s: %v", row.why, err)
			}
			goneWithin(t, p, s.Name)
		})
	}
}

// launch brings up a cluster that another process holds.
func launch(t *testing.T, p *embedded.Provider, name string) (launcher, init int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), launchVar+"="+name, "KUBELITE="+p.Kubelite, "CACHE="+p.CacheDir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var after string
	if _, err := fmt.Sscan(line, &init, &after); err != nil || after != "<nil>" {
		t.Fatalf("launcher said %q", line)
	}
	return cmd.Process.Pid, init
}

func TestDial(t *testing.T) {
	c := up(t, provider(t, ""), spec(t))
	address := fmt.Sprintf("127.0.0.1:%d", embeddedtest.EchoPort)
	for _, network := range []string{"tcp", "udp"} {
		conn, err := c.DialContext(t.Context(), network, address)
		if err != nil {
			t.Fatal(network, err)
		}
		defer conn.Close()
		buf := make([]byte, 5)
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Fatal(network, err)
		}
		if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "hello" {
			t.Errorf("%s: got %q, %v", network, buf, err)
		}
	}
	_, err := c.DialContext(t.Context(), "tcp", "127.0.0.1:9")
	if _, isOp := errors.AsType[*net.OpError](err); !isOp || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial of a closed port: %v, want a *net.OpError that is ECONNREFUSED", err)
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Skip("this machine has an echo service itself: nothing is shown")
	}
}

func TestNodes(t *testing.T) {
	c := up(t, provider(t, ""), spec(t))
	if err := c.Kill(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	facts, err := c.Facts(t.Context())
	if err != nil || facts.Nodes[1].State != clusters.NodeKilled {
		t.Errorf("after Kill: %+v, %v", facts.Nodes, err)
	}
	if err := c.Partition(t.Context(), "node9", "api"); err == nil || !strings.Contains(err.Error(), "partition node node9") {
		t.Errorf("Partition of no node: %v", err)
	}
}

func TestSpawn(t *testing.T) {
	c := up(t, provider(t, ""), spec(t))
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	code, err := c.Spawn(t.Context(), clusters.Command{
		Argv: []string{"/bin/sh", "-c", "echo $GREETING from $PWD; exit 3"}, Env: []string{"GREETING=hello"}, Dir: "/usr", Stdout: write,
	})
	write.Close()
	said, _ := io.ReadAll(read)
	if code != 3 || err != nil || string(said) != "hello from /usr\n" {
		t.Errorf("Spawn: %d, %v, %q", code, err, said)
	}
	if code, err = c.Spawn(t.Context(), clusters.Command{Argv: []string{"/bin/sh", "-c", "kill -9 $$"}}); code != 137 || err != nil {
		t.Errorf("a killed command: %d, %v; want 137", code, err)
	}
	if _, err := c.Spawn(t.Context(), clusters.Command{Argv: []string{"/no/such"}}); err == nil {
		t.Error("a command that is not there ran")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Spawn(ctx, clusters.Command{Argv: []string{"/bin/sleep", "1000"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Spawn under a context that ended: %v", err)
	}
}

func TestLog(t *testing.T) {
	p := provider(t, "")
	s := spec(t)
	s.Detach = true
	if err := up(t, p, s).WriteLog(t.Context(), io.Discard); err != nil {
		t.Error(err)
	}
}
