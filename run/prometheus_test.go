package run

import (
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

func TestQueryWindow(t *testing.T) {
	const s = time.Second
	var p phases
	for _, e := range []struct {
		at    time.Duration
		name  string
		state history.EntryState
	}{
		{10 * s, "warmup", history.EntryStarted}, {20 * s, "warmup", history.EntryEnded},
		{20 * s, "round", history.EntryStarted}, {25 * s, "round", history.EntryEnded},
		{30 * s, "round", history.EntryStarted}, {40 * s, "round", history.EntryEnded},
		{41 * s, "never", history.EntryMissed},
	} {
		p.tap(history.Event{At: e.at, Data: history.Entry{Name: e.name, State: e.state}})
	}
	for _, tt := range []struct {
		says        string
		query       scenarios.Query
		from, until time.Duration
		fails       bool
	}{
		{"without a window from the first phase to the last one's end", scenarios.Query{}, 10 * s, 40 * s, false},
		{"during a phase", scenarios.Query{During: "warmup"}, 10 * s, 20 * s, false},
		{"a phase that came again is one window", scenarios.Query{During: "round"}, 20 * s, 40 * s, false},
		{"after a phase", scenarios.Query{After: "warmup"}, 20 * s, 40 * s, false},
		{"after the last phase nothing was watched", scenarios.Query{After: "round"}, 0, 0, true},
		{"a phase that was missed has no window", scenarios.Query{During: "never"}, 0, 0, true},
	} {
		t.Run(tt.says, func(t *testing.T) {
			from, until, err := p.window(tt.query, 60*s)
			if from != tt.from || until != tt.until || (err != nil) != tt.fails {
				t.Errorf("got %s to %s, %v", from, until, err)
			}
		})
	}
	if got := promDuration(36500 * time.Millisecond); got != "37s" {
		t.Errorf("36.5 s is %s in PromQL", got)
	}
}
