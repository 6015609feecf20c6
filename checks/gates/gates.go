// Package gates is the language of a scenario's expectations and conditions: CEL over what a run
// measured (gates) or over what a run sees while it goes on (conditions).
//
// Names are declared, so an unknown one is a configuration error before anything starts, never a
// silent pass. A value over a window in which nothing was sampled does not exist: the gate that asks
// for it is inconclusive, on every side of every operator, because an expression is always evaluated
// whole. The package imports nothing of ours, so that scenarios can check expressions with it.
package gates

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// Gate is one expectation as its author wrote it.
type Gate struct {
	Name string `json:"name"`
	Expr string `json:"expr"`
}

// Names are the words of one scenario that an expression may use.
type Names struct {
	Components []string // parts of the system whose capacity is measured: auth, proxy
	Phases     []string // names of timeline entries
	Streams    []string // names of load entries
	Kinds      []string // kinds of session: ssh, kube-exec
	Queries    []string // names of questions to a Prometheus
	Metrics    []string // names of metrics that pods are scraped for
}

// Problem is one mistake in one expression. Line and Column count from 1 within the expression.
type Problem struct {
	Gate         string
	Line, Column int
	Message      string
	Nearest      string   // what was probably meant; may be empty
	Allowed      []string // what may stand there instead, where Nearest is empty
	Hint         string   // other help; may be empty
}

// Error gives the problem on one line.
func (p Problem) Error() string {
	s := fmt.Sprintf("%d:%d: %s", p.Line, p.Column, p.Message)
	if p.Gate != "" {
		s = fmt.Sprintf("gate %q: %s", p.Gate, s)
	}
	switch {
	case p.Nearest != "":
		s += "; did you mean " + p.Nearest + "?"
	case len(p.Allowed) > 0:
		s += "; there is " + strings.Join(p.Allowed, ", ")
	case p.Hint != "":
		s += "; " + p.Hint
	}
	return s
}

// Problems are all mistakes of a set of expressions; as an error it prints one a line.
type Problems []Problem

// Error gives one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Program is a gate that was type-checked and can be evaluated any number of times.
type Program struct {
	Gate
	whole cel.Program
	parts []comparison
}

// Compile type-checks every gate; the error is Problems and names all mistakes at once.
func Compile(gs []Gate, names Names) ([]*Program, error) {
	l, err := newLanguage(gateVocabulary(names), names)
	if err != nil {
		return nil, err
	}
	var out []*Program
	var all Problems
	for _, g := range gs {
		p, problems := l.compileGate(g)
		all = append(all, problems...)
		out = append(out, p)
	}
	if len(all) > 0 {
		return nil, all
	}
	return out, nil
}

func (l *language) compileGate(g Gate) (*Program, Problems) {
	checked, problems := l.check(g.Name, g.Expr, cel.BoolType)
	if len(problems) > 0 {
		return nil, problems
	}
	whole, err := l.program(checked)
	if err != nil {
		return nil, Problems{{Gate: g.Name, Line: 1, Column: 1, Message: err.Error()}}
	}
	return &Program{Gate: g, whole: whole, parts: l.comparisons(checked)}, nil
}

// Outcome of a gate or of a whole run. The zero value is inconclusive.
type Outcome int

const (
	Inconclusive Outcome = iota
	Pass
	Fail
	Error // the harness or the machine broke; never the outcome of a gate
)

// String gives the word used in verdict.json.
func (o Outcome) String() string {
	switch o {
	case Pass:
		return "pass"
	case Fail:
		return "fail"
	case Error:
		return "error"
	}
	return "inconclusive"
}

// MarshalText gives the word used in verdict.json.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the word; anything unknown is an error, not inconclusive.
func (o *Outcome) UnmarshalText(b []byte) error {
	for _, known := range []Outcome{Inconclusive, Pass, Fail, Error} {
		if known.String() == string(b) {
			*o = known
			return nil
		}
	}
	return fmt.Errorf("outcome %q: allowed are pass, fail, inconclusive and error", b)
}

// Result is a gate's outcome with what was compared.
type Result struct {
	Name    string   `json:"name"`
	Expr    string   `json:"expr"`
	Value   any      `json:"value"`            // the left side of a single comparison, else all of them as text
	Margin  *float64 `json:"margin,omitempty"` // how far from failing (negative: failed by); seconds for durations
	Outcome Outcome  `json:"outcome"`
	Detail  string   `json:"detail,omitempty"` // why inconclusive; never empty then
	// Numbers is what it would be by the numbers, where they are not to be trusted; it is inconclusive then.
	Numbers Outcome `json:"byTheNumbers,omitzero"`
}

// Eval judges the gate over data. It never panics and never passes on missing data.
func (p *Program) Eval(data Data) (r Result) {
	r = Result{Name: p.Name, Expr: p.Expr}
	defer func() {
		if v := recover(); v != nil {
			r.Outcome, r.Detail = Inconclusive, fmt.Sprintf("the gate crashed: %v", v)
		}
	}()
	seen := &trace{}
	vars := gateVariables(data, seen)
	out, _, err := p.whole.Eval(vars)
	values := evalParts(p.parts, vars)
	r.Value, r.Margin = summarize(values)
	switch {
	case err == nil && out == types.False:
		r.Outcome = Fail
	case err == nil && out == types.True && len(seen.doubts) == 0:
		r.Outcome = Pass
	case len(seen.doubts) > 0:
		r.Detail = seen.String()
	case err != nil:
		r.Detail = err.Error()
	default:
		r.Detail = fmt.Sprintf("the expression gave %v", out)
	}
	p.doubtPending(&r, data, seen.pending)
	return r
}

// trace collects, while an expression is evaluated, which of its values could not be had.
type trace struct {
	doubts  []string
	pending int // recordings among those that were counted
}

func (t *trace) doubt(why string) {
	for _, d := range t.doubts {
		if d == why {
			return
		}
	}
	t.doubts = append(t.doubts, why)
}

// String joins the reasons in the order they were met.
func (t *trace) String() string { return strings.Join(t.doubts, "; ") }

func seconds(d time.Duration) float64 { return d.Seconds() }
