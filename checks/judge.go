package checks

import (
	"fmt"
	"slices"
	"strings"

	"shakedown.dev/shakedown/checks/gates"
)

type gate = gates.Gate

// Options change how a run is judged. The zero value is the default.
type Options struct {
	Checks []Check  // nil: Default()
	Skip   []string // names of checks to leave out, of Skippable; they are listed in the verdict
}

// Skippable are the names of the default checks that can be left out: all but validity.
func Skippable() []string {
	var names []string
	for _, c := range Default() {
		if c.Name != validityCheck {
			names = append(names, c.Name)
		}
	}
	return names
}

// Judge runs every check and every gate over the measures. It cannot crash and cannot pass on nothing.
func Judge(m *Measures, o Options) Verdict {
	list := o.Checks
	if list == nil {
		list = Default()
	}
	var findings []Finding
	for _, c := range list {
		if c.Name == validityCheck || !slices.Contains(o.Skip, c.Name) {
			findings = append(findings, c.run(m)...)
		}
	}
	results, gateFindings := m.judgeGates()
	findings = append(findings, gateFindings...)
	doubts := m.doubtful(findings, results)
	v := m.verdict()
	v.Findings, v.Gates, v.Skipped = findings, results, o.Skip
	v.Verdict = worst(m, findings)
	v.Doubts, v.Reasons = doubts, reasons(v.Verdict, findings, doubts)
	return v
}

// judgeGates compiles the gates again, because a run folder can be judged by another version than wrote it.
func (m *Measures) judgeGates() ([]gates.Result, []Finding) {
	results := []gates.Result{}
	var findings []Finding
	for _, g := range m.Expect.Gates {
		r := gates.Result{Name: g.Name, Expr: g.Expr}
		if ps, err := gates.Compile([]gates.Gate{g}, m.Expect.Names); err != nil {
			r.Detail = err.Error()
		} else {
			r = ps[0].Eval(m.Data())
		}
		results = append(results, r)
		findings = append(findings, gateFinding(r))
	}
	return results, findings
}

// gateCheck is the name under which gates give findings.
const gateCheck = "gate"

func gateFinding(r gates.Result) Finding {
	f := Finding{Check: gateCheck, Outcome: r.Outcome, Summary: fmt.Sprintf("%s: %s", r.Name, r.Expr)}
	if r.Value != nil {
		f.Summary += fmt.Sprintf(" is %v", r.Value)
	}
	if r.Detail != "" {
		f.Summary += " (" + r.Detail + ")"
	}
	return f
}

// doubtful turns what fails into inconclusive where the measuring itself is in doubt, and gates that
// pass as well: they would be read as true. It gives the conditions that do not hold, to be told once.
func (m *Measures) doubtful(fs []Finding, rs []gates.Result) (doubts []string) {
	for _, v := range m.invalid(true) {
		doubts = append(doubts, v.Name)
	}
	if len(doubts) == 0 {
		return nil
	}
	for i := range fs {
		if f := &fs[i]; f.Outcome == Fail {
			f.Numbers, f.Outcome = f.Outcome, Inconclusive
			f.Summary += " [" + byNumbers(f.Numbers) + "]"
		}
	}
	for i := range rs {
		if r := &rs[i]; r.Outcome != Inconclusive {
			r.Numbers, r.Outcome = r.Outcome, Inconclusive
			r.Detail = byNumbers(r.Numbers)
		}
	}
	return doubts
}

func byNumbers(o Outcome) string { return o.String() + " by the numbers" }

// worst: an aborted run is an error of the harness; else fail beats inconclusive beats pass, and
// without a single passing finding nothing has passed.
func worst(m *Measures, fs []Finding) Outcome {
	if m.End != nil && m.End.How == "aborted" {
		return Error
	}
	passed, unsure := false, false
	for _, f := range fs {
		switch f.Outcome {
		case Fail:
			return Fail
		case Pass:
			passed = true
		default:
			unsure = true
		}
	}
	if passed && !unsure {
		return Pass
	}
	return Inconclusive
}

// reasons are the findings that made the verdict what it is, the gravest first. What only the numbers of
// a doubtful run say comes last, with the doubt once before it; its gates are told as gates.
func reasons(o Outcome, fs []Finding, doubts []string) []string {
	out := []string{}
	if o == Pass {
		return out
	}
	for _, want := range []Outcome{Error, Fail, Inconclusive} {
		for _, f := range fs {
			if f.Outcome == want && f.Numbers == Inconclusive {
				out = append(out, f.Summary)
			}
		}
	}
	if len(doubts) > 0 {
		out = append(out, doubtReason(doubts))
	}
	for _, f := range fs {
		if f.Numbers != Inconclusive && f.Check != gateCheck {
			out = append(out, f.Summary)
		}
	}
	if len(out) == 0 {
		out = append(out, "nothing was judged")
	}
	return out
}

// doubtReason says why nothing that was measured can be held against the system, or for it.
func doubtReason(doubts []string) string {
	return "the numbers are not to be trusted, because this does not hold: " + strings.Join(doubts, ", ")
}
