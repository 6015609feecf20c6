package kind

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// served is a gateway in this process.
func served(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ServeGateway(ctx, path) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for {
		if answers(path) {
			return path
		}
		time.Sleep(time.Millisecond)
	}
}

func TestSocketsAreHandedOver(t *testing.T) {
	socket := served(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	conn, err := dialThrough(t.Context(), socket, asked{Network: "tcp", Address: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 5)
	if _, err := io.ReadFull(conn, back); err != nil || string(back) != "hello" {
		t.Errorf("%q, %v", back, err)
	}
	if conn.RemoteAddr().String() != l.Addr().String() {
		t.Errorf("the socket's own address is %s, want %s", conn.RemoteAddr(), l.Addr())
	}
}

func TestRefusalsKeepTheirErrno(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	_, err = dialThrough(t.Context(), served(t), asked{Network: "tcp", Address: nobody})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, want ECONNREFUSED", err)
	}
	if _, err := dialThrough(t.Context(), served(t), asked{Network: "tcp", Address: "no port"}); err == nil {
		t.Error("an address without a port was dialled")
	}
}

func TestDiallingEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s")) // it never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	why := errors.New("no patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	if _, err := dialThrough(ctx, l.Addr().String(), asked{}); !errors.Is(err, why) {
		t.Errorf("%v, want %v", err, why)
	}
}

func TestDockerRuns(t *testing.T) {
	docker := filepath.Join(t.TempDir(), "docker")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(docker, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if dockerRuns(os.Getpid()) {
		t.Fatal("found before there was one")
	}
	cmd := exec.Command(docker, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !dockerRuns(os.Getpid()) {
		t.Error("a child called docker was not found")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if dockerRuns(os.Getpid()) {
		t.Error("found after its end")
	}
}
