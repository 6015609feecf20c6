package runs

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/standin/faults"
)

//go:embed planted.yaml
var planted []byte

// values makes a --set of what the chart is told.
func values(path, text string) string { return "teleport.from.values." + path + "=" + text }

// wrong is one planted fault, and what the harness must say of it.
type wrong struct {
	fault  string
	set    []string // planted from the beginning, and what the scenario needs to bring it about
	during func(context.Context, clusters.Cluster) error
	hit    func(checks.Verdict) int // how many sessions or recordings were found to be hit; nil: none need be
	says   string                   // what is said of it
}

func sessionsOf(classes ...string) func(checks.Verdict) int {
	return func(v checks.Verdict) (n int) {
		s := v.Measures.Sessions
		for _, c := range classes {
			n += map[string]int{"dropped": s.Dropped, "refused": s.Refused, "stalled": s.Stalled}[c]
		}
		return n
	}
}

func recordingsOf(class string) func(checks.Verdict) int {
	return func(v checks.Verdict) int {
		r := v.Measures.Recordings
		return map[string]int{"missing": r.Missing, "truncated": r.Truncated, "gap": r.Gap, "noEnd": r.NoEnd, "late": r.Late}[class]
	}
}

// missed is what the verdict should say of a planted fault and does not; "" if it found it.
func (w wrong) missed(v checks.Verdict) string {
	switch text := findings(v); {
	case v.Verdict != checks.Fail:
		return fmt.Sprintf("the verdict is %s, want fail", v.Verdict)
	case w.hit != nil && w.hit(v) == 0:
		return "nothing is in the class that it makes"
	case !strings.Contains(text, w.says):
		return fmt.Sprintf("nothing says %q, but:\n%s", w.says, text)
	}
	return ""
}

// The faults that hit single sessions and recordings, by where they are planted.
var bySession = []wrong{
	{fault: "drop-silently", set: []string{values("standin.faults", "drop-silently:every=9,after=1s")}, hit: sessionsOf("dropped"), says: "lost sessions have no cause"},
	{fault: "refuse-share", set: []string{values("proxy.standin.faults", "refuse-share:every=8")}, hit: sessionsOf("refused"), says: "nothing refused"},
	{fault: "stall", set: []string{values("standin.faults", "stall:every=11,after=1s,for=30s")}, hit: sessionsOf("stalled", "dropped"), says: "lost sessions have no cause"},
	{fault: "half-open", set: []string{values("standin.faults", "half-open:every=10,after=1s")}, hit: sessionsOf("stalled", "dropped"), says: "lost sessions have no cause"},
	{fault: "lose-recording", set: []string{values("standin.faults", "lose-recording:every=8")}, hit: recordingsOf("missing"), says: "missing"},
	{fault: "truncate-recording", set: []string{values("standin.faults", "truncate-recording:every=5")}, hit: recordingsOf("truncated"), says: "truncated"},
	{fault: "gap-recording", set: []string{values("standin.faults", "gap-recording:every=4")}, hit: recordingsOf("gap"), says: "gap"},
	{fault: "duplicate-recording", set: []string{values("standin.faults", "duplicate-recording:every=7")}, says: "events more than once"},
	{fault: "forget-end-event", set: []string{values("auth.standin.faults", "forget-end-event:every=6")}, hit: recordingsOf("noEnd"), says: "noEnd"},
	{fault: "late-upload", set: []string{values("auth.standin.faults", "late-upload:every=7,for=8s")}, hit: recordingsOf("late"), says: "every recording complete"},
}

// The faults of whole parts.
var byPart = []wrong{
	{fault: "ready-while-dead", during: plant("proxy", 1, "ready-while-dead"), set: []string{"timeline[0]={name: hold, wait: 18s}"}, says: "was ready but served nobody"},
	{fault: "unready-while-alive", during: plant("proxy", 1, "unready-while-alive"), set: []string{"timeline[0]={name: hold, wait: 30s}"}, says: "served but was not ready"},
	{fault: "never-drain", set: []string{values("proxy.standin.faults", "never-drain"),
		"timeline=[{name: hold, wait: 5s}, {name: restart, do: {restart: {component: proxy}}}, {name: recovery, wait: {for: recovered(), within: 60s}}]"},
		says: "did not stop within its"},
	{fault: "slow-auth", during: plant("auth", 0, "slow-auth", "--for=2s"), says: "opens are quick"},
	{fault: "stale-node", set: []string{values("auth.standin.faults", "stale-node"),
		"timeline=[{name: hold, wait: 4s}, {name: gone, do: {podDelete: {select: {component: agent, count: 1}, gracePeriod: 0s}}}, {name: later, wait: 20s}]"},
		says: "was still listed"},
	{fault: "leak-memory", set: []string{values("proxy.standin.faults", "leak-memory:bytes=2097152"), "timeline[0]={name: hold, wait: 16s}",
		`expect=[{name: nothing leaks, that: 'metrics("process_resident_memory_bytes").of("proxy").perSession < 524288.0'}]`}, says: "nothing leaks"},
	{fault: "wrong-host-key", during: plant("auth", 0, "wrong-host-key"), set: []string{
		"timeline=[{name: hold, wait: 4s}, {name: gone, do: {podDelete: {select: {component: agent, count: 1}, gracePeriod: 0s}}}, {name: later, wait: 32s}]"},
		says: "was registered and out of reach"}, // the proxies refuse its tunnel
}

// together is one run that is told to be wrong in all the ways of some rows at once.
func together(rows []wrong) (set []string) {
	at := map[string][]string{}
	var order []string
	for _, w := range rows {
		path, fault, _ := strings.Cut(w.set[0], "=")
		if at[path] == nil {
			order = append(order, path)
		}
		at[path] = append(at[path], fault)
	}
	for _, path := range order {
		set = append(set, path+"="+strings.Join(at[path], ";"))
	}
	return set
}

// TestE2EPlantedTogether is one run with many faults: each has to be found beside the others.
func TestE2EPlantedTogether(t *testing.T) {
	set := append(together(bySession), "load[terminals].arrival.open.rate=10/s")
	v := trial{text: planted, seed: 1, set: set}.judged(t).Verdict
	tell(t, v)
	for _, w := range bySession {
		if missed := w.missed(v); missed != "" {
			t.Errorf("%s was planted and not found: %s", w.fault, missed)
		}
	}
}

// TestE2EPlantedAlone is a run for each fault, in which nothing else is wrong.
func TestE2EPlantedAlone(t *testing.T) {
	if !long() {
		t.Skip(longEnv + " is not set: those of sessions and recordings are tried together, others not at all")
	}
	for _, w := range slices.Concat(bySession, byPart) {
		t.Run(w.fault, func(t *testing.T) {
			v := trial{text: planted, seed: 1, set: w.set, during: w.during}.judged(t).Verdict
			if missed := w.missed(v); missed != "" {
				tell(t, v)
				t.Errorf("%s was planted and not found: %s", w.fault, missed)
			}
		})
	}
}

// TestE2EEveryPlantedFaultIsTried holds the rows against what the stand-in can be told.
func TestE2EEveryPlantedFaultIsTried(t *testing.T) {
	tried := map[string]bool{}
	for _, w := range slices.Concat(bySession, byPart) {
		tried[w.fault] = true
	}
	for _, name := range faults.All() {
		if !tried[string(name)] {
			t.Errorf("%s has no row", name)
		}
	}
	if len(tried) != len(faults.All()) {
		t.Errorf("%d rows, the stand-in knows %d faults", len(tried), len(faults.All()))
	}
}
