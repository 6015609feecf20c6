package cli_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/gates"
	"shakedown.dev/shakedown/checks/runtest"
	"shakedown.dev/shakedown/history"
)

// runfolder DIR [seed=N] [silent=N] [missing=N] [gate=EXPR] [unhealed=WHAT] [cut] [standin] writes the folder
// of a made-up run: silent sessions are dropped and missing recordings lost without a cause, and the history
// of a run that was cut has lost its end.
func runfolder(ts *testscript.TestScript, _ bool, args []string) {
	c := runtest.Config{Seed: 7, Rate: 2}
	unhealed, cut := "", false
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		number, _ := strconv.Atoi(value)
		switch key {
		case "seed":
			c.Seed = uint64(number)
		case "silent":
			c.Silent = number
		case "missing":
			c.Missing = number
		case "gate":
			c.Gates = []gates.Gate{{Name: "the gate of this test", Expr: value}}
		case "unhealed":
			unhealed = value
		case "cut":
			cut = true
		case "standin":
			c.Standin = true
		default:
			ts.Fatalf("runfolder: %s is not known", arg)
		}
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(runtest.WriteFolder(dir, c))
	if cut || unhealed != "" {
		ts.Check(runtest.WriteHistory(filepath.Join(dir, checks.HistoryFile), otherEnd(runtest.RolloutUnderFire(c), cut, unhealed)))
	}
}

// otherEnd is a history without its last tenth, or with something unhealed at its end.
func otherEnd(events []history.Event, cut bool, unhealed string) []history.Event {
	if cut {
		return events[:len(events)*9/10]
	}
	for i, e := range events {
		if end, ok := e.Data.(history.RunEnd); ok {
			end.Unhealed = []string{unhealed}
			events[i].Data = end
		}
	}
	return events
}
