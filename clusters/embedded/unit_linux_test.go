package embedded

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

func TestSubIDs(t *testing.T) {
	const file = "# none\nroot:1:1\nann:100000:65536\n1000:300000:10\nbob:x:65536\nbob:5:0\n"
	for _, row := range []struct {
		why          string
		names        []string
		start, count int64
		ok           bool
	}{
		{"by user name", []string{"7", "ann"}, 100000, 65536, true},
		{"by number", []string{"1000", "cyd"}, 300000, 10, true},
		{"ranges that are no numbers or empty are passed over", []string{"bob"}, 0, 0, false},
		{"a stranger has none", []string{"eve"}, 0, 0, false},
	} {
		t.Run(row.why, func(t *testing.T) {
			start, count, ok := subIDs(bufio.NewScanner(strings.NewReader(file)), row.names)
			if start != row.start || count != row.count || ok != row.ok {
				t.Errorf("got %d, %d, %t", start, count, ok)
			}
		})
	}
}

func TestSameShape(t *testing.T) {
	have := BootSpec{Name: "a", Nodes: 3, NodeMonitorGrace: "40s", APIPort: 6443, Labels: map[string]string{"a": "1", "b": "2"}}
	for _, row := range []struct {
		why    string
		change func(*BootSpec)
		names  string // what the error names, "" for none
	}{
		{"the same", func(*BootSpec) {}, ""},
		{"a duration in other words", func(s *BootSpec) { s.NodeMonitorGrace = "0m40s" }, ""},
		{"any port will do", func(s *BootSpec) { s.APIPort = 0 }, ""},
		{"another cache is another command's", func(s *BootSpec) { s.ImageCache = "/elsewhere" }, ""},
		{"fewer nodes", func(s *BootSpec) { s.Nodes = 1 }, "nodes is 3, not 1"},
		{"another port", func(s *BootSpec) { s.APIPort = 7443 }, "API port"},
		{"another grace", func(s *BootSpec) { s.NodeMonitorGrace = "10s" }, "grace"},
		{"an image more", func(s *BootSpec) { s.Images = []ImageSource{{"x", "y"}} }, "images"},
		{"other labels", func(s *BootSpec) { s.Labels = nil }, "labels"},
	} {
		t.Run(row.why, func(t *testing.T) {
			want := have
			row.change(&want)
			err := sameShape(have, want)
			if row.names == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, clusters.ErrDifferent) || !strings.Contains(err.Error(), row.names) {
				t.Errorf("got %v, want ErrDifferent with %q", err, row.names)
			}
		})
	}
}

func TestExplainClone(t *testing.T) {
	for _, row := range []struct {
		why         string
		err         error
		userNS      bool
		unsupported bool
		hint        string
	}{
		{"a user without user namespaces", syscall.EPERM, true, true, "run as root"},
		{"a root without rights", syscall.EPERM, false, true, "--cluster kind"},
		{"an old kernel", syscall.EINVAL, false, true, "shakedown doctor"},
		{"too many namespaces", syscall.ENOSPC, true, false, "user.max_"},
		{"anything else speaks for itself", syscall.ENOENT, true, false, ""},
	} {
		t.Run(row.why, func(t *testing.T) {
			err := explainClone(row.err, row.userNS)
			if errors.Is(err, clusters.ErrUnsupported) != row.unsupported {
				t.Errorf("%v: ErrUnsupported should be %t", err, row.unsupported)
			}
			if hint := exit.HintOf(err); !strings.Contains(hint, row.hint) || (row.hint == "") != (hint == "") {
				t.Errorf("hint %q, want %q in it", hint, row.hint)
			}
		})
	}
}

func TestExplainDisk(t *testing.T) {
	full := explainDisk(&os.PathError{Op: "open", Path: "/c", Err: syscall.ENOSPC}, "/c")
	if !strings.Contains(full.Error(), "full") || exit.HintOf(full) == "" {
		t.Errorf("a full disk: %v (%q)", full, exit.HintOf(full))
	}
	if err := explainDisk(io.EOF, "/c"); err != io.EOF {
		t.Errorf("another error became %v", err)
	}
}

// TestForeignSocket: a name is not enough; somebody else may have bound it first.
func TestForeignSocket(t *testing.T) {
	name := ControlName(os.Geteuid(), "foreign-"+filepath.Base(t.TempDir()))
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := dialWire(t.Context(), name, os.Geteuid()+1); !errors.Is(err, errForeign) {
		t.Errorf("got %v, want errForeign", err)
	}
	w, err := dialWire(t.Context(), name, os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}

func TestAbsoluteSource(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("build", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ why, source, want string }{
		{"a folder of programs", "host:build", "host:" + dir + "/build"},
		{"a layout or an archive", "build", dir + "/build"},
		{"a reference stays", "registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"},
	} {
		if got, err := absoluteSource(row.source); err != nil || got != row.want {
			t.Errorf("%s: %q, %v; want %q", row.why, got, err, row.want)
		}
	}
	if _, err := absoluteSource("host:missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestSpawnTTY(t *testing.T) {
	master, slave, err := openPTY()
	if err != nil {
		t.Skip("no pseudo-terminals here:", err)
	}
	defer master.Close()
	defer slave.Close()
	name := ControlName(os.Geteuid(), "tty-"+filepath.Base(t.TempDir()))
	c := &Cluster{name: "tty", uid: os.Geteuid(), socket: name}
	// The command only opens its terminal; what it says comes out of the caller's.
	go serveOnce(t, name)
	read := make(chan string)
	go func() {
		line, _ := bufio.NewReader(master).ReadString('\n')
		read <- line
	}()
	deadline := time.Now().Add(5 * time.Second)
	for {
		_, err = c.Spawn(t.Context(), clusters.Command{Argv: []string{"x"}, TTY: true, Stdin: slave, Stdout: slave, Stderr: slave})
		if !errors.Is(err, clusters.ErrNotFound) || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if line := <-read; !strings.HasPrefix(line, "through the terminal") {
		t.Errorf("read %q", line)
	}
}

// serveOnce answers one spawn by writing to the terminal that came with it.
func serveOnce(t *testing.T, name string) {
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Error(err)
		return
	}
	defer l.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Error(err)
		return
	}
	w := &wire{conn: conn.(*net.UnixConn)}
	defer w.Close()
	var r Request
	if err := w.receive(&r); err != nil || !r.TTY || len(w.fds) != 1 {
		t.Errorf("request %+v with %d descriptors: %v", r, len(w.fds), err)
		return
	}
	tty := os.NewFile(uintptr(w.fds[0]), "tty")
	w.fds = nil
	_, err = tty.WriteString("through the terminal\n")
	code := 0
	if err := errors.Join(err, tty.Close(), w.send(Response{Exit: &code})); err != nil {
		t.Error(err)
	}
}
