package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// tshEnv names Teleport's tsh, whose `bench` is measured beside the engine.
const tshEnv = "SHAKEDOWN_TSH"

// tshRate is how many sessions tsh is told to begin a second.
const tshRate = 20

// BenchmarkTsh holds b.N terminals by `tsh bench`, each with a command that takes long, and reports what one costs tsh.
// It does nothing else: tsh checks no line and keeps no record of a session. Run it with -benchtime 300x.
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
	hold := opens + 20*time.Second
	b.ResetTimer()
	// tsh stops to begin sessions when its duration is over, and waits for those that run.
	cmd := exec.CommandContext(b.Context(), tsh, "-i", identity, "--proxy="+l.Web, "--insecure", "bench", "--interactive",
		"--rate="+strconv.Itoa(tshRate), "--duration="+opens.String(), "root@node-0", fmt.Sprintf("sleep %.0f", hold.Seconds()))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Env = append(os.Environ(), "HOME="+l.folder)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	first := kept(cmd.Process.Pid, time.Second)
	held, connections := kept(cmd.Process.Pid, opens+4*time.Second), 0
	connections = sockets(cmd.Process.Pid)
	used := processTime(cmd.Process.Pid)
	time.Sleep(5 * time.Second)
	idle := processTime(cmd.Process.Pid) - used
	b.StopTimer()
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	if connections < b.N/2 && b.N > 1 {
		b.Fatalf("tsh holds %d of %d sessions: %s", connections, b.N, lastOf(said.Bytes()))
	}
	n := float64(max(connections, 1))
	b.ReportMetric(n, "held")
	b.ReportMetric(float64(held-first)/n, "rss-KiB/session")
	b.ReportMetric(float64(held)/1024, "rss-MiB")
	b.ReportMetric(float64(used.Microseconds())/n, "cpu-µs/open")
	b.ReportMetric(100*idle.Seconds()/5, "%core-held")
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

// sockets is how many a process has open.
func sockets(pid int) (n int) {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	files, _ := os.ReadDir(folder)
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(folder, f.Name())); err == nil && len(to) > 7 && to[:7] == "socket:" {
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
