package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"shakedown.dev/shakedown/internal/loopback"
)

func TestMain(m *testing.M) {
	run := func() { os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }
	testscript.Main(m, map[string]func(){"teleport": run, "tctl": run, "standin": run})
}

// addresses is how many of them a script is given.
const addresses = 6

// TestScripts runs the command line as a person would; the scripts find free
// addresses in $A1 to $A6 and wait with `ready ADDR [CODE]`.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	// All at once: the scripts run beside each other, and must not be given the same.
	free, err := loopback.Addresses(addresses * len(scripts))
	if err != nil {
		t.Fatal(err)
	}
	var given atomic.Int64
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			last := int(given.Add(addresses))
			for i, addr := range free[last-addresses : last] {
				env.Setenv(fmt.Sprintf("A%d", i+1), addr)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"ready": ready, "expand": expand, "signal": sendSignal, "says": says, "appears": appears},
	})
}

// ready waits until /readyz at an address answers 200, or the code given.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	want := "200"
	if len(args) == 2 {
		want = args[1]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	last := ""
	for ctx.Err() == nil {
		if resp, err := http.Get("http://" + args[0] + "/readyz"); err == nil {
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if last = fmt.Sprint(resp.StatusCode); (last == want) != neg {
				ts.Logf("/readyz: %s %s", last, b)
				return
			}
		} else {
			last = err.Error()
		}
		time.Sleep(20 * time.Millisecond) // another process: there is nothing to wait on
	}
	ts.Fatalf("/readyz at %s did not answer %s: %s", args[0], want, last)
}

// says waits until a file contains a text.
func says(ts *testscript.TestScript, _ bool, args []string) {
	deadline := time.Now().Add(10 * time.Second)
	for {
		b, _ := os.ReadFile(ts.MkAbs(args[0]))
		if strings.Contains(string(b), args[1]) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not say %s: %s", args[0], args[1], b)
		}
		time.Sleep(20 * time.Millisecond) // another process: there is nothing to wait on
	}
}

// appears waits until a file is there.
func appears(ts *testscript.TestScript, _ bool, args []string) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s did not appear", args[0])
		}
		time.Sleep(20 * time.Millisecond) // another process: there is nothing to wait on
	}
}

// sendSignal sends TERM, QUIT, HUP or KILL to the process started last.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	all := ts.BackgroundCmds()
	sig := map[string]os.Signal{"TERM": syscall.SIGTERM, "QUIT": syscall.SIGQUIT, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL}[args[0]]
	ts.Check(all[len(all)-1].Process.Signal(sig))
}

// expand replaces $VARIABLES in a file.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), func(key string) string { return ts.Getenv(key) })
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}
