package e2e

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/standin/faults"
)

// plants is what one planted fault must look like.
type plants struct {
	because string
	rule    faults.Rule
	where   []string // processes it is planted in
	mode    string
	session history.Class          // of the sessions it struck; empty: as without it
	cut     history.Cut            // of these
	record  history.RecordingClass // of their recordings; empty: not looked at
	settle  time.Duration
}

var nodes = []string{"node-0", "node-1"}

// TestPlanted plants each fault in every third session: the sessions and recordings that the harness finds must be
// exactly those of the stand-in's private record, in the class that the fault deserves.
func TestPlanted(t *testing.T) {
	tests := []plants{
		{"a recording is thrown away", faults.Rule{Name: faults.LoseRecording}, nodes, "node", "", "", history.RecMissing, 4 * time.Second},
		{"the tail of a recording is missing", faults.Rule{Name: faults.TruncateRecording}, nodes, "node", "", "", history.RecTruncated, 15 * time.Second},
		{"lines inside a recording are missing", faults.Rule{Name: faults.GapRecording}, nodes, "node", "", "", history.RecGap, 15 * time.Second},
		{"events are there twice, which is no loss", faults.Rule{Name: faults.DuplicateRecording}, nodes, "node", "", "", history.RecComplete, 15 * time.Second},
		{"the end is never logged", faults.Rule{Name: faults.ForgetEndEvent}, []string{"auth"}, "node", "", "", history.RecNoEnd, 6 * time.Second},
		{"the upload comes late", faults.Rule{Name: faults.LateUpload, For: 8 * time.Second}, []string{"auth"}, "node", "", "", history.RecLate, 15 * time.Second},
		{"the session is cut without a word", faults.Rule{Name: faults.DropSilently, After: 700 * time.Millisecond}, nodes, "node", history.Dropped, history.CutChannel, "", 15 * time.Second},
		{"the path is dead and nobody says so", faults.Rule{Name: faults.HalfOpen, After: 700 * time.Millisecond}, nodes, "node", history.Dropped, history.CutKeepalive, "", time.Second},
		{"the path is held for longer than two keep-alives", faults.Rule{Name: faults.Stall, After: 700 * time.Millisecond, For: 4 * time.Second}, nodes, "node", history.Dropped, history.CutKeepalive, "", time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			t.Parallel()
			planted(t, tt)
		})
	}
}

func planted(t *testing.T, tt plants) {
	if testing.Short() {
		t.Skip("ten seconds for each fault")
	}
	l := start(t, tt.mode)
	tt.rule.Every = 3
	for _, name := range tt.where {
		if err := faults.Dial(filepath.Join(l.folder, name)).Set(t.Context(), tt.rule); err != nil {
			t.Fatal(err)
		}
	}
	events, _ := run(t, l, plan(6, 2*time.Second, 100*time.Millisecond), tt.mode, 5*time.Second, tt.settle)
	struck := l.struck(t, tt)
	if len(struck) == 0 {
		t.Fatal("the fault struck nothing")
	}
	for s := range of[history.Session](events) {
		hit := tt.session != "" && struck[s.ServerSession]
		switch {
		case hit && (s.Class != tt.session || tt.cut != "" && s.Cut != tt.cut):
			t.Errorf("%s was struck: %s, %s, %s", s.ID, s.Class, s.Cut, s.Reason)
		case !hit && s.Class != history.Clean && s.Class != history.Unfinished:
			t.Errorf("%s was not struck: %s, %s, %s", s.ID, s.Class, s.Cut, s.Reason)
		}
	}
	if tt.record == "" {
		return
	}
	for r := range of[history.Recording](events) {
		if r.Expected < enough {
			continue
		}
		want := history.RecComplete
		if struck[r.ServerSession] {
			want = tt.record
		}
		if r.Class != want {
			t.Errorf("%s: %s (%s), want %s; struck %t; %d of %d lines, missing %v", r.Session, r.Class, r.Detail, want, struck[r.ServerSession], r.Found, r.Expected, r.Missing)
		}
	}
}

// enough is how many lines a session needs for a fault to strike it as its name says.
const enough = 8

// struck are the sessions that the stand-in says it struck.
func (l *lab) struck(t *testing.T, tt plants) map[string]bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	out := map[string]bool{}
	for _, name := range tt.where {
		entries, err := faults.Dial(filepath.Join(l.folder, name)).Record(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Fault == tt.rule.Name {
				out[e.Session] = true
			}
		}
	}
	return out
}
