package gates

import "testing"

// FuzzGate: whatever an author writes, compiling gives problems or a gate, and evaluating a gate that
// knows nothing never passes.
func FuzzGate(f *testing.F) {
	for _, seed := range []string{
		"capacity.proxy.min >= 2", `sessions.dropped.during("warmup") == 0`, `latency("terminals").after("recovery", duration("1m")).p99 <= duration("500ms")`,
		"recordings.missing == 0 && recordings.truncated == 0", `has(sessions.dropped)`, `[1, 2].all(x, x > sessions.dropped)`, `{"a": sessions}["a"].dropped == 0`,
		`sessions.stream("kubectl").kind("ssh").dropped.before("drain") < goodput.ratio`, `capacity.proxy.secondsBelow(0.5) < 1.0`, "recovery.recovered ? true : false",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		ps, err := Compile([]Gate{{Name: "g", Expr: expr}}, names)
		if err != nil {
			if err.Error() == "" {
				t.Error("a problem without words")
			}
			return
		}
		r := ps[0].Eval(fakeData{})
		if r.Outcome == Inconclusive && r.Detail == "" {
			t.Errorf("%s: inconclusive without a reason", expr)
		}
	})
}

// FuzzCondition: compiling and evaluating never crash.
func FuzzCondition(f *testing.F) {
	for _, seed := range []string{`rollout("proxy").updated >= 0.5`, "recovered()", `pods({"component": "proxy"}).ready == 3`, "sessions.held > 10 && elapsed > duration('3s')"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		c, err := CompileCondition(expr, names)
		if err != nil {
			return
		}
		_, _, _ = c.Eval(fakeWorld{})
	})
}
