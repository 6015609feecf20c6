package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"shakedown.dev/shakedown/internal/cli"
)

func TestMain(m *testing.M) {
	commands := fakes()
	commands["shakedown"] = cli.Main
	if commands[filepath.Base(os.Args[0])] == nil {
		isolate()
	}
	testscript.Main(m, commands)
}

// TestScripts runs the command lines in testdata, each file a story with its inputs and what must come out.
func TestScripts(t *testing.T) {
	testscript.RunT(sequential{t}, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, "cache"))
			env.Setenv("DOCKER_HOST", "unix:///nowhere") // the clusters of whoever runs the tests are none of ours
			if os.Getenv(isolatedVar) == "yes" {
				env.Defer(takeAllDown) // also when the script failed; in here are none but the tests'
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "namespaces" {
				return os.Getenv(isolatedVar) == "yes", nil
			}
			return false, fmt.Errorf("condition %q is not known", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"eventually": eventually,
			"runfolder":  runfolder,
		},
	})
}

// takeAllDown ends the clusters that a script left. That it fails is the script's own trouble.
func takeAllDown() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	cli.Run(context.Background(), []string{"cluster", "down", "--all", "--cluster", "embedded"}, cli.Streams{In: null, Out: null, Err: null})
}

// sequential runs one script after the other: they share a network namespace, and so the names of clusters.
type sequential struct{ *testing.T }

func (s sequential) Parallel()     {}
func (s sequential) Verbose() bool { return testing.Verbose() }

func (s sequential) Run(name string, run func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { run(sequential{t}) })
}

// exits CODE CMD ARG… runs a command that must end with that exit status.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// eventually CMD ARG… repeats a command until it succeeds; with ! until it fails.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.Now().Add(10 * time.Second)
	for (ts.Exec(args[0], args[1:]...) == nil) == neg {
		if time.Now().After(deadline) {
			ts.Fatalf("not within 10 s")
		}
	}
}
