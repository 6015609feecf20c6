package checks

import (
	"strings"
	"testing"

	"shakedown.dev/shakedown/history"
)

func gateOn(exprs ...string) func(*world) { return func(w *world) { w.gates(exprs...) } }

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		says   string
		run    *world
		want   Outcome
		reason string // part of the first reason
	}{
		{"an undisturbed run without losses passes", steady(gateOn("sessions.dropped == 0", "recordings.missing == 0")), Pass, ""},
		{"a killed proxy whose losses are explained passes its gates", killed(gateOn("capacity.proxy.min >= 2", "sessions.unattributed == 0")), Pass, ""},
		{"a gate that does not hold fails", killed(gateOn("sessions.dropped == 0")), Fail, "sessions.dropped == 0 is 16"},
		{"a gate over a phase that never began is inconclusive", steady(gateOn(`sessions.during("recovery").dropped == 0`)), Inconclusive, "phase recovery never began"},
		{"a gate that names nothing known is inconclusive, not a pass", steady(gateOn("sessions.lost == 0")), Inconclusive, `unknown field "lost"`},
		{"a failed gate beats an inconclusive one", killed(gateOn("sessions.dropped == 0", `sessions.during("recovery").dropped == 0`)), Fail, "sessions.dropped == 0 is 16"},
		{"a recording gate without any recording is inconclusive", steady(noRecordings, gateOn("recordings.missing == 0")), Inconclusive, "no recording was expected"},
		{"a history without its end is inconclusive", steady(func(w *world) { w.cut = true }), Inconclusive, "history complete"},
		{"a history that is cut off does not fail either", killed(func(w *world) { w.cut = true }, gateOn("sessions.dropped == 0")), Inconclusive, "history complete"},
		{"an aborted run is an error", steady(end(history.RunEnd{How: "aborted", Error: "helm: timed out"})), Error, "helm: timed out"},
		{"an interrupted run is inconclusive", steady(end(history.RunEnd{How: "interrupted"})), Inconclusive, "interrupted"},
		{"what is not healed is inconclusive", steady(end(history.RunEnd{How: "finished", Unhealed: []string{"node n1"}})), Inconclusive, "not healed: node n1"},
		{"a run in which nothing was measured is inconclusive", steady(nothing), Inconclusive, "something measured"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			v := tt.run.judge(t)
			if v.Verdict != tt.want {
				t.Errorf("verdict %s, want %s: %s", v.Verdict, tt.want, strings.Join(v.Reasons, "\n"))
			}
			if tt.reason == "" {
				if len(v.Reasons) > 0 {
					t.Errorf("a pass with reasons: %q", v.Reasons)
				}
				return
			}
			if len(v.Reasons) == 0 || !strings.Contains(strings.Join(v.Reasons, "\n"), tt.reason) {
				t.Errorf("reasons %q, want %q", v.Reasons, tt.reason)
			}
		})
	}
}

func end(e history.RunEnd) func(*world) {
	return func(w *world) { edit(w, func(_ *history.Event, r *history.RunEnd) { *r = e }) }
}

func noRecordings(w *world) {
	w.drop(func(e history.Event) bool { return e.Kind == history.KindRecording })
	w.sessions(func(s *history.Session) { s.Recorded = false })
}

func nothing(w *world) {
	w.start.Streams = nil
	w.drop(func(e history.Event) bool { return e.Kind != history.KindRunEnd && e.Kind != history.KindEntry })
}

func TestEmptyHistoryIsInconclusive(t *testing.T) {
	v := Judge(Measure(Expect{}, history.NewReader(strings.NewReader(""))), Options{})
	if v.Verdict != Inconclusive || len(v.Reasons) == 0 {
		t.Errorf("verdict %s, reasons %q", v.Verdict, v.Reasons)
	}
}

func TestZeroVerdictIsInconclusive(t *testing.T) {
	var v Verdict
	if v.Verdict != Inconclusive || v.ExitCode() != 2 {
		t.Errorf("zero verdict is %s with exit code %d", v.Verdict, v.ExitCode())
	}
}

func TestCrashingCheckIsInconclusive(t *testing.T) {
	m := steady().measure(t)
	v := Judge(m, Options{Checks: []Check{
		{"fine", func(*Measures) []Finding { return one(Pass, "fine") }},
		{"crash", func(*Measures) []Finding { panic("index out of range") }},
	}})
	if v.Verdict != Inconclusive || !strings.Contains(v.Reasons[0], "check crash crashed: index out of range") {
		t.Errorf("verdict %s, reasons %q", v.Verdict, v.Reasons)
	}
}

func TestNoChecksIsInconclusive(t *testing.T) {
	if v := Judge(steady().measure(t), Options{Checks: []Check{}}); v.Verdict != Inconclusive {
		t.Errorf("verdict %s", v.Verdict)
	}
}

func TestExitCodes(t *testing.T) {
	for o, want := range map[Outcome]int{Pass: 0, Fail: 1, Inconclusive: 2, Error: 3} {
		if got := (Verdict{Verdict: o}).ExitCode(); got != want {
			t.Errorf("%s: exit code %d, want %d", o, got, want)
		}
	}
	if got := (Verdict{Verdict: Pass, Unhealed: []string{"node n1"}}).ExitCode(); got != 4 {
		t.Errorf("unhealed: exit code %d, want 4", got)
	}
}

func TestVerdictFile(t *testing.T) {
	v := killed(gateOn("sessions.dropped == 0")).judge(t)
	dir := t.TempDir()
	if err := v.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := ReadVerdict(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := v.JSON()
	b, _ := got.JSON()
	if string(a) != string(b) {
		t.Errorf("reading back gives another verdict:\n%s\n%s", a, b)
	}
	for _, key := range []string{`"schema": "shakedown.dev/verdict/v1alpha1"`, `"verdict": "fail"`, `"lossRatio"`, `"unattributed"`, `"noEnd"`, `"p99Ms"`, `"standin": true`} {
		if !strings.Contains(string(a), key) {
			t.Errorf("verdict.json has no %s", key)
		}
	}
}

func TestVerdictListsWhatNothingExplains(t *testing.T) {
	v := killed(dropOne).judge(t)
	if len(v.Unattributed) != 1 || v.Unattributed[0].ID != "terminals/100" || v.Measures.Sessions.Unattributed != 1 {
		t.Errorf("unattributed %+v", v.Unattributed)
	}
	if len(v.Losses) != 2 || v.Losses[0].Found || v.Losses[1].Count != 16 {
		t.Errorf("losses %+v", v.Losses)
	}
}

func TestDoubtTurnsFailIntoInconclusive(t *testing.T) {
	busy := killed(gateOn("sessions.dropped == 0", "sessions.unattributed == 0"), dead("proxy-2", 40*sec, 60*sec), func(w *world) {
		edit(w, func(_ *history.Event, g *history.Generator) { g.CPU = 0.97 })
	})
	v := busy.judge(t)
	if v.Verdict != Inconclusive {
		t.Errorf("verdict %s: %q", v.Verdict, v.Reasons)
	}
	if g := v.Gates[0]; g.Outcome != Inconclusive || g.Numbers != Fail || g.Detail != "fail by the numbers" {
		t.Errorf("gate: %+v", g)
	}
	if g := v.Gates[1]; g.Outcome != Inconclusive || g.Numbers != Pass {
		t.Errorf("gate: %+v", g)
	}
	why := "the numbers are not to be trusted, because this does not hold: generator had CPU to spare"
	want := []string{"generator had CPU to spare: ", why, "pod proxy-2 was ready but served nobody for "}
	for i, r := range v.Reasons {
		if i >= len(want) || !strings.HasPrefix(r, want[i]) {
			t.Errorf("reason %d: %q; want %q", i, r, want)
		}
	}
	if len(v.Reasons) != len(want) || len(v.Doubts) != 1 {
		t.Errorf("reasons %q, doubts %q", v.Reasons, v.Doubts)
	}
}

func TestSkip(t *testing.T) {
	silent := steady(dropOne)
	if v := silent.judge(t); v.Verdict != Fail {
		t.Fatalf("verdict %s", v.Verdict)
	}
	v := Judge(silent.measure(t), Options{Skip: []string{"sessions explained"}})
	if v.Verdict != Pass || len(v.Skipped) != 1 {
		t.Errorf("verdict %s, skipped %q: %q", v.Verdict, v.Skipped, v.Reasons)
	}
	cut := steady(func(w *world) { w.cut = true })
	if v := Judge(cut.measure(t), Options{Skip: append(Skippable(), "validity")}); v.Verdict != Inconclusive {
		t.Errorf("validity can be left out: %s", v.Verdict)
	}
}
