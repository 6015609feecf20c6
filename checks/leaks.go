package checks

import (
	"fmt"
	"slices"

	"shakedown.dev/shakedown/history/metrics"
)

// What a session may leave behind before it is worth telling. A goroutine counts at once; what is live on the heap is
// known only by the collector's next target, which is twice of it, and caches grow too.
const (
	leakGoroutines = 0.5
	leakHeap       = 256 << 10 // bytes live
	leakLeast      = 8 << 20   // bytes in all
)

// leaksNoted: what sessions leave behind in the pods they went through is told of. It fails no run: no session was
// lost by it. Who wants it to fail writes a gate, such as metrics("go_goroutines").of("proxy").perSession < 0.5.
func leaksNoted(m *Measures) []Finding {
	looked := false
	var out []Finding
	for _, component := range []string{"proxy", "agent"} {
		if left, _, ok := m.l.left(metrics.Goroutines, component); ok {
			looked = true
			if left.sure >= leakGoroutines {
				out = append(out, leakFinding("each session that ended left %.1f goroutines behind in its %s pod", left.each, component))
			}
		}
		if left, grown, ok := m.l.left(metrics.HeapTarget, component); ok {
			looked = true
			if left.sure/2 >= leakHeap && grown/2 >= leakLeast {
				out = append(out, leakFinding("each session that ended left about %.1f MiB of memory behind in its %s pod", left.each/2/(1<<20), component))
			}
		}
	}
	if looked && len(out) == 0 {
		return one(Pass, "sessions left no goroutines and no memory behind")
	}
	return out
}

func leakFinding(format string, args ...any) Finding {
	return Finding{Outcome: Pass, Note: true, Summary: fmt.Sprintf(format, args...) + ": a leak, or kept for longer than was watched"}
}

// calm is the run up to its first change: a process that has lost its auth or its peers grows for other reasons.
func (l *ledger) calm() span {
	w := l.whole()
	if at := l.firstChange(); at != never {
		w.to = at
	}
	return w
}

// left is what each session that ended left behind in one pod, where that is surest, and by how much the metric grew there.
func (l *ledger) left(name, component string) (left leftover, grown float64, known bool) {
	calm := l.calm()
	for _, pod := range l.podsOf(l.metrics[name], component) {
		all := slices.DeleteFunc(slices.Clone(l.metrics[name][pod]), func(s scrape) bool { return !calm.contains(s.at) })
		if one, ok := l.leftBehind(pod, all); ok && (!known || one.sure > left.sure) {
			left, grown, known = one, all[len(all)-1].v-all[0].v, true
		}
	}
	return left, grown, known
}
