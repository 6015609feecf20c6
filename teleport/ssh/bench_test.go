package ssh_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shakedown.dev/shakedown/teleport/identity"
	"shakedown.dev/shakedown/teleport/ssh"
	"shakedown.dev/shakedown/teleport/ssh/sshtest"
)

// serverEnv makes the test binary a server, so that benchmarks count the client's side alone.
const serverEnv = "SSHTEST_SERVE"

func TestMain(m *testing.M) {
	if folder := os.Getenv(serverEnv); folder != "" {
		serveUntilEOF(folder)
		return
	}
	os.Exit(m.Run())
}

func serveUntilEOF(folder string) {
	a, err := sshtest.NewAuthority(cluster)
	if err != nil {
		panic(err)
	}
	s, err := sshtest.Start(a)
	if err != nil {
		panic(err)
	}
	_, file, err := a.Identity("load-0", time.Now().Add(time.Hour), "root")
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "identity"), file, 0o600); err != nil {
		panic(err)
	}
	fmt.Println(s.Address)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// elsewhere starts the server in a process of its own.
func elsewhere(b *testing.B) (*ssh.Client, ssh.Proxy) {
	b.Helper()
	folder := b.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+folder)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	id, err := identity.Load(filepath.Join(folder, "identity"))
	if err != nil {
		b.Fatal(err)
	}
	c, err := ssh.New(ssh.Options{Identity: id})
	if err != nil {
		b.Fatal(err)
	}
	return c, ssh.Proxy{Address: strings.TrimSpace(address), Name: "localhost"}
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkOpen opens and closes terminal sessions through TLS routing with an ECDSA identity.
func BenchmarkOpen(b *testing.B) {
	c, proxy := elsewhere(b)
	before := cpu(b)
	b.ReportAllocs()
	for b.Loop() {
		s, err := c.Open(b.Context(), proxy, ssh.Target{Node: sshtest.NodeID}, ssh.Start{PTY: true})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/open")
}

// BenchmarkHold holds b.N terminal sessions, each with a reader, and reports what each costs the client.
// Run it with -benchtime 2000x.
func BenchmarkHold(b *testing.B) {
	c, proxy := elsewhere(b)
	var before, after runtime.MemStats
	debug.FreeOSMemory()
	runtime.ReadMemStats(&before)
	rss := resident(b)
	goroutines := runtime.NumGoroutine()
	sessions := make([]*ssh.Session, b.N)
	var wg sync.WaitGroup
	gate := make(chan bool, 32)
	for i := range sessions {
		gate <- true
		wg.Go(func() {
			defer func() { <-gate }()
			s, err := c.Open(b.Context(), proxy, ssh.Target{Node: sshtest.NodeID}, ssh.Start{PTY: true})
			if err != nil {
				b.Error(err)
				return
			}
			sessions[i] = s
			go readAll(s)
			fmt.Fprintf(s, "line %d\n", i)
		})
	}
	wg.Wait()
	if b.Failed() {
		return
	}
	debug.FreeOSMemory()
	runtime.ReadMemStats(&after)
	n := float64(b.N)
	b.ReportMetric(float64(resident(b)-rss)/n, "rss-KiB/session")
	b.ReportMetric(float64(after.HeapInuse-before.HeapInuse)/n/1024, "heap-KiB/session")
	b.ReportMetric(float64(after.StackInuse-before.StackInuse)/n/1024, "stack-KiB/session")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n, "goroutines/session")
	for _, s := range sessions {
		s.Close()
	}
}

// readAll reads as a ledger does, into a small buffer: io.Discard would hold 8 KiB for each.
func readAll(s *ssh.Session) {
	buf := make([]byte, 512)
	for {
		if _, err := s.Read(buf); err != nil {
			return
		}
	}
}

// resident is the memory this process keeps, in KiB.
func resident(b *testing.B) int {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("needs /proc")
	}
	for line := range strings.Lines(string(status)) {
		var kib int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			return kib
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
