package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shakedown.dev/shakedown/undo"
)

func TestPatience(t *testing.T) {
	for _, row := range []struct {
		why     string
		signals int
		notes   []string
		hurried bool
		left    bool
	}{
		{"no signal, nothing said", 0, nil, false, false},
		{"the first heals and reports", 1, []string{"healing and reporting"}, false, false},
		{"the second only heals", 2, []string{"healing and reporting", "Only healing"}, true, false},
		{"the third leaves", 3, []string{"healing and reporting", "Only healing"}, true, true},
	} {
		t.Run(row.why, func(t *testing.T) {
			var out bytes.Buffer
			left := make(chan struct{}, 1)
			watch := &inTurn{to: &plainProgress{out: &out, clock: newStopwatch()}}
			p := (&app{}).heed(watch, func() { left <- struct{}{} })
			for range row.signals {
				// Not by the kernel: it makes one of several that are pending.
				p.signals <- syscall.SIGINT
			}
			if row.left {
				<-left
			}
			for len(p.signals) > 0 {
				time.Sleep(time.Millisecond)
			}
			if got := p.release(); got != row.hurried {
				t.Errorf("hurried is %v, want %v", got, row.hurried)
			}
			for _, note := range row.notes {
				if !strings.Contains(out.String(), note) {
					t.Errorf("%q is not in %q", note, out.String())
				}
			}
			if row.notes == nil && out.Len() > 0 {
				t.Errorf("it said %q", out.String())
			}
		})
	}
}

func TestNewestRun(t *testing.T) {
	out, began := t.TempDir(), time.Now()
	if got := newestRun(out, began); got != "" {
		t.Errorf("nothing has run, and it found %s", got)
	}
	for _, run := range []string{"20260101-000000-a-0000", "20260102-000000-b-0000", "20260103-000000-old-0000"} {
		dir := filepath.Join(out, run)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, undo.FileName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := began.Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(out, "20260103-000000-old-0000", undo.FileName), long, long); err != nil {
		t.Fatal(err)
	}
	if got := filepath.Base(newestRun(out, began)); got != "20260102-000000-b-0000" {
		t.Errorf("found %s", got)
	}
}

func TestRepeated(t *testing.T) {
	for _, row := range []struct {
		why  string
		argv []string
		want string
	}{
		{"the seed that was drawn is added", []string{"bin/shakedown", "run", "steady"}, "shakedown run steady --seed 7"},
		{"a seed that was given is not said twice", []string{"shakedown", "run", "--seed", "7", "steady"}, "shakedown run steady --seed 7"},
		{"in either way of giving it", []string{"shakedown", "run", "--seed=7", "steady"}, "shakedown run steady --seed 7"},
		{"how it was shown is no part of it", []string{"shakedown", "-ojson", "run", "-v", "steady", "--progress", "plain", "-o", "json", "--progress=tty"}, "shakedown run steady --seed 7"},
		{"what a shell would touch is quoted", []string{"shakedown", "run", "it's", "--set", "a=$b"}, `shakedown run 'it'\''s' --set 'a=$b' --seed 7`},
		{"what came from standard input is in the folder", []string{"shakedown", "run", "-"}, "shakedown run runs/x/scenario.yaml --seed 7"},
	} {
		if got := repeated(row.argv, "runs/x/scenario.yaml", 7); got != row.want {
			t.Errorf("%s: %s, want %s", row.why, got, row.want)
		}
	}
}
