package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tshEnv names Teleport's tsh, whose `bench` is measured beside the engine.
const tshEnv = "SHAKEDOWN_TSH"

// tshRate is how many sessions tsh is told to begin a second: a real node starts a program of 80 MB for each.
const tshRate = 5

// BenchmarkTsh holds b.N sessions or some more by `tsh bench`, each with a command that takes long, and reports what one
// costs tsh. It does nothing else: tsh checks no line and keeps no record of a session, and its sessions have no
// terminal. Run it with -benchtime 60x, against a real Teleport: tsh does not believe the stand-in's certificate.
func BenchmarkTsh(b *testing.B) {
	tsh := os.Getenv(tshEnv)
	if tsh == "" {
		b.Skip("set " + tshEnv + " to a tsh")
	}
	l := start(b, "off")
	identity := filepath.Join(l.folder, "identity")
	if _, err := l.Tctl.Run(b.Context(), nil, "auth", "sign", "--user=load-0", "--format=file", "--ttl=1h", "--overwrite", "--out="+identity); err != nil {
		b.Fatal(err)
	}
	opens := time.Duration(b.N) * time.Second / tshRate
	command := fmt.Sprintf("sleep %d", 60+int(opens.Seconds()))
	forProxy(b, identity, l.Name)
	b.ResetTimer()
	// tsh begins sessions until its duration is over and one has ended.
	cmd := exec.CommandContext(b.Context(), tsh, "-i", identity, "--proxy="+l.Web, "--insecure", "bench",
		"--rate="+strconv.Itoa(tshRate), "--duration="+opens.String(), "root@node-0", command)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Env = append(os.Environ(), "HOME="+l.folder)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	first := kept(cmd.Process.Pid, time.Second)
	held := kept(cmd.Process.Pid, opens+5*time.Second) // a real node needs its time to start so many programs
	sessions := min(sockets(cmd.Process.Pid), int(time.Since(began).Seconds()*tshRate))
	used := processTime(cmd.Process.Pid)
	b.StopTimer()
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	if sessions < b.N/2 && b.N > 1 {
		b.Fatalf("tsh holds %d of %d sessions: %s", sessions, b.N, lastOf(said.Bytes()))
	}
	n := float64(max(sessions, 1))
	b.ReportMetric(n, "held")
	b.ReportMetric(float64(held-first)/n, "rss-KiB/session")
	b.ReportMetric(float64(held)/1024, "rss-MiB")
	b.ReportMetric(float64(used.Microseconds())/n, "cpu-µs/open")
}

// forProxy puts the proxy's address before the cluster's name in the identity's known hosts: tsh takes no others.
func forProxy(b *testing.B, identity, cluster string) {
	text, err := os.ReadFile(identity)
	if err != nil {
		b.Fatal(err)
	}
	var out []byte
	for line := range bytes.Lines(text) {
		if words := bytes.SplitN(line, []byte(" "), 3); len(words) == 3 && string(words[0]) == "@cert-authority" {
			line = append([]byte("@cert-authority 127.0.0.1,"+cluster+",*."+cluster+" "), words[2]...)
		}
		out = append(out, line...)
	}
	if err := os.WriteFile(identity, out, 0o600); err != nil {
		b.Fatal(err)
	}
}

func lastOf(text []byte) string { return string(text[max(0, len(text)-500):]) }

// kept is how much memory a process keeps, in KiB, after some time.
func kept(pid int, after time.Duration) (kib int) {
	time.Sleep(after)
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range bytes.Lines(status) {
		if n, err := fmt.Sscanf(string(line), "VmRSS: %d kB", &kib); n == 1 && err == nil {
			break
		}
	}
	return kib
}

// sockets is how many connections a process has open.
func sockets(pid int) (n int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// processTime is the processor time that a process has used (proc(5), stat, fields 14 and 15, ticks of 10 ms).
func processTime(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := bytes.LastIndexByte(text, ')'); i > 0 {
		fields := bytes.Fields(text[i+1:])
		user, _ := strconv.Atoi(string(fields[11]))
		system, _ := strconv.Atoi(string(fields[12]))
		return time.Duration(user+system) * 10 * time.Millisecond
	}
	return 0
}
