package reports

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/gates"
)

// count is a number with the word for it.
type count struct {
	N    int
	Word string
	// Bad says that any of them is worth a look.
	Bad bool
}

func sessionCounts(s gates.Sessions) []count {
	return []count{
		{s.Opened, "opened", false}, {s.Clean, "clean", false}, {s.Refused, "refused", true}, {s.Dropped, "dropped", true},
		{s.Stalled, "stalled", true}, {s.Unfinished, "unfinished", false}, {s.Ours, "ours", true}, {s.Unattributed, "unattributed", true},
	}
}

func recordingCounts(r gates.Recordings) []count {
	return []count{
		{r.Expected, "expected", false}, {r.Complete, "complete", false}, {r.Truncated, "truncated", true}, {r.Gap, "gap", true},
		{r.NoEnd, "no end", true}, {r.Missing, "missing", true}, {r.Late, "late", true}, {r.Pending, "pending", true},
	}
}

// sampleWords says how many recordings nobody read back; empty where all were.
func sampleWords(m checks.VerdictMeasures) string {
	if m.NotRead == 0 {
		return ""
	}
	return fmt.Sprintf("%d read back, %d judged by the audit log alone", m.Recordings.Expected-m.NotRead, m.NotRead)
}

// damaged is the number of recordings of which something is lost.
func damaged(r gates.Recordings) int { return r.Truncated + r.Gap + r.NoEnd + r.Missing }

func lostSessions(s gates.Sessions) int { return s.Refused + s.Dropped + s.Stalled }

// capacityWords tells a component's capacity on one line.
func capacityWords(c checks.ComponentCapacity) string {
	words := fmt.Sprintf("min %d of %d %s", c.Min, c.Desired, c.Basis)
	if c.ReplicaSecondsLost == 0 {
		return words + ", nothing lost"
	}
	words += fmt.Sprintf(", lost %s (%.1f replica-seconds)", percent(c.LossRatio), c.ReplicaSecondsLost)
	if c.BlackoutSeconds > 0 {
		words += fmt.Sprintf(", none at all for %s", length(c.BlackoutSeconds))
	}
	return words
}

func recoveryWords(r *gates.Recovery) string {
	switch {
	case r == nil:
		return "nothing was disturbed"
	case r.Recovered:
		return fmt.Sprintf("%.1f s after the last disturbance", r.Seconds)
	}
	return fmt.Sprintf("not seen in the %.1f s watched", r.Seconds)
}

// valueWords is a gate's value with how far it is from failing.
func valueWords(g gates.Result) (value, margin string) {
	value = "–"
	if g.Value != nil {
		value = number(g.Value)
	}
	if g.Margin != nil {
		margin = strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%+.3f", *g.Margin), "0"), ".")
		if *g.Margin == 0 {
			margin = "0"
		}
	}
	return value, margin
}

// number prints a value from judging or from JSON the same way.
func number(v any) string {
	if f, ok := v.(float64); ok {
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", f), "0"), ".")
	}
	return fmt.Sprint(v)
}

// proofWords says whether a fault bit, by what, and whether and when it was healed.
func proofWords(f checks.FaultRow) string {
	bit := "bit"
	if !f.Bit {
		bit = "NOT PROVEN TO BITE"
	}
	if f.Proof != "" {
		bit += " (" + f.Proof + ")"
	}
	return bit + ", " + healedWords(f)
}

func healedWords(f checks.FaultRow) string {
	switch {
	case !f.Healed:
		return "NOT PROVEN HEALED"
	case f.Start == nil || f.End == nil:
		return "healed"
	}
	return "healed after " + length(*f.End-*f.Start)
}

// versions are what a rollout goes from and to; empty for a restart or a change of scale.
func versions(x checks.RolloutRow) string {
	if x.From == "" && x.To == "" {
		return ""
	}
	return x.From + " → " + x.To
}

// window is from when to when something was done.
func window(from, to *float64) string {
	if from == nil {
		return "–"
	}
	return at(from) + " to " + at(to)
}

// costWords says what was lost to a fault or rollout, and how few pods there were meanwhile.
func costWords(c checks.Cost) string {
	words := strings.Join(lossWords(c), ", ")
	if least := leastWords(c); len(least) > 0 {
		words += "; least meanwhile: " + strings.Join(least, ", ")
	}
	return words
}

func lossWords(c checks.Cost) []string {
	var lost []string
	for _, n := range []count{{c.Refused, "refused", true}, {c.Dropped, "dropped", true}, {c.Stalled, "stalled", true},
		{c.Missing, "recordings missing", true}, {c.Recordings - c.Missing, "recordings damaged", true}} {
		if n.N > 0 {
			lost = append(lost, fmt.Sprintf("%d %s", n.N, n.Word))
		}
	}
	words := []string{"nothing lost"}
	perhaps := "perhaps %d %s"
	switch shared := c.Shared+c.SharedRecordings > 0; {
	case len(lost) > 0:
		words[0] = strings.Join(lost, ", ")
		perhaps = "perhaps %d more %s"
	case shared:
		words[0] = "nothing for certain"
	}
	if n := c.Shared; n > 0 {
		words = append(words, fmt.Sprintf(perhaps, n, "sessions"))
	}
	if n := c.SharedRecordings; n > 0 {
		words = append(words, fmt.Sprintf(perhaps, n, "recordings"))
	}
	return words
}

func leastWords(c checks.Cost) (words []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Least)) {
		l := c.Least[name]
		words = append(words, fmt.Sprintf("%s %d of %d %s", name, l.Pods, l.Desired, l.Basis))
	}
	return words
}
