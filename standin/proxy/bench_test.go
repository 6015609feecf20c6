package proxy

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	envBenchServer = "STANDIN_BENCH_SERVER"
	envBenchCount  = "STANDIN_BENCH_SESSIONS"
)

// benchServer is what the server process tells the benchmark.
type benchServer struct{ Web, Key, Cert, Login, HostCA string }

// TestBenchServer is the server side of the benchmark, in a process of its own.
func TestBenchServer(t *testing.T) {
	if os.Getenv(envBenchServer) == "" {
		t.Skip("runs only as the server process of BenchmarkSession")
	}
	debug.SetGCPercent(50) // as the program does
	r := newRig(t)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert := r.auth.Users.Certify("alice", signer.PublicKey(), []string{r.login}, "load")
	json.NewEncoder(os.Stdout).Encode(benchServer{
		Web: r.proxy.addrs.web, Key: string(pem.EncodeToMemory(block)), Cert: string(ssh.MarshalAuthorizedKey(cert)), Login: r.login,
		HostCA: string(ssh.MarshalAuthorizedKey(r.auth.Hosts.Keys()[0])),
	})
	// The parent asks for a collection before it measures, and ends us by closing our input.
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		for range 6 {
			runtime.GC()
		}
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Printf("heap %d stack %d goroutines %d rss %d\n", m.HeapInuse, m.StackInuse, runtime.NumGoroutine(), rss(t, os.Getpid()))
	}
}

// BenchmarkSession opens sessions through one proxy to one node in another process and reports what each costs that process, proxy and node together, with auth in memory and recording on. STANDIN_BENCH_SESSIONS says how many (1000).
func BenchmarkSession(b *testing.B) {
	count := 1000
	if n, err := strconv.Atoi(os.Getenv(envBenchCount)); err == nil {
		count = n
	}
	for b.Loop() {
		benchOnce(b, count)
	}
}

func benchOnce(b *testing.B, count int) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestBenchServer$", "-test.v=false")
	cmd.Env = append(os.Environ(), envBenchServer+"=1")
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
	defer cmd.Wait()
	defer in.Close()
	lines := bufio.NewReader(out)
	r := benchRig(b, lines)
	before := measure(b, in, lines)
	began := time.Now()
	sessions := openMany(b, r, count)
	opening := time.Since(began)
	for _, s := range sessions {
		io.WriteString(s.in, "line 1\n")
	}
	for _, s := range sessions {
		s.say(r, "line 2", "line 2")
	}
	after := measure(b, in, lines)
	for i, unit := range []string{"heap-B/session", "stack-B/session", "goroutines/session", "rss-B/session"} {
		b.ReportMetric(float64(after[i]-before[i])/float64(count), unit)
	}
	b.ReportMetric(float64(count)/opening.Seconds(), "opens/s")
	for _, s := range sessions {
		s.outer.Close()
	}
}

// benchRig is the client half of a rig whose servers are elsewhere.
func benchRig(b *testing.B, lines *bufio.Reader) *rig {
	raw, err := lines.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	var s benchServer
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		b.Fatalf("server said %q: %v", raw, err)
	}
	key, err := ssh.ParsePrivateKey([]byte(s.Key))
	if err != nil {
		b.Fatal(err)
	}
	pub, _, _, _, err := ssh.ParseAuthorizedKey([]byte(s.Cert))
	if err != nil {
		b.Fatal(err)
	}
	user, err := ssh.NewCertSigner(pub.(*ssh.Certificate), key)
	if err != nil {
		b.Fatal(err)
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(s.HostCA))
	if err != nil {
		b.Fatal(err)
	}
	return &rig{t: b, login: s.Login, user: user, hostCA: host, proxy: &service{addrs: addresses{web: s.Web}}}
}

func openMany(b *testing.B, r *rig, count int) []*terminal {
	sessions := make([]*terminal, count)
	errs := make(chan error, count)
	var wg sync.WaitGroup
	gate := make(chan struct{}, 16)
	for i := range sessions {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			var err error
			if sessions[i], err = r.tryOpen("standin-echo cat"); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		b.Fatal(err)
	}
	return sessions
}

// measure gives heap, stack, goroutines and resident bytes of the server process.
func measure(b *testing.B, in io.Writer, lines *bufio.Reader) [4]int64 {
	var m [4]int64
	io.WriteString(in, "measure\n")
	raw, err := lines.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Sscanf(raw, "heap %d stack %d goroutines %d rss %d", &m[0], &m[1], &m[2], &m[3]); err != nil {
		b.Fatalf("server said %q: %v", raw, err)
	}
	return m
}

func rss(t testing.TB, pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
