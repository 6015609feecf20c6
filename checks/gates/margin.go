package gates

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// comparison is one `left op right` that must hold for the whole gate to hold.
type comparison struct {
	text        string // the left side as written
	op          string
	left, right cel.Program
}

// compared is a comparison with what its sides were.
type compared struct {
	comparison
	value, bound ref.Val
}

// comparisons finds the comparisons a gate consists of: itself, or the terms of a conjunction.
// Anything else (||, !, ?:) has no single value to show.
func (l *language) comparisons(a *cel.Ast) []comparison {
	rep := a.NativeRep()
	return l.split(rep.Expr(), rep.SourceInfo())
}

func (l *language) split(e ast.Expr, info *ast.SourceInfo) []comparison {
	if e.Kind() != ast.CallKind {
		return nil
	}
	call := e.AsCall()
	if call.FunctionName() == operators.LogicalAnd {
		var out []comparison
		for _, arg := range call.Args() {
			out = append(out, l.split(arg, info)...)
		}
		return out
	}
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
	default:
		return nil
	}
	c, err := l.comparison(call, info)
	if err != nil {
		return nil // the gate still counts; only its value cannot be shown
	}
	return []comparison{c}
}

func (l *language) comparison(call ast.CallExpr, info *ast.SourceInfo) (comparison, error) {
	c := comparison{op: call.FunctionName()}
	var err error
	if c.text, err = cel.ExprToString(call.Args()[0], info); err != nil {
		return c, err
	}
	if c.left, err = l.side(c.text); err != nil {
		return c, err
	}
	right, err := cel.ExprToString(call.Args()[1], info)
	if err != nil {
		return c, err
	}
	c.right, err = l.side(right)
	return c, err
}

func (l *language) side(expr string) (cel.Program, error) {
	a, iss := l.env.Compile(expr)
	if iss.Err() != nil {
		return nil, fmt.Errorf("compile %s: %w", expr, iss.Err())
	}
	return l.program(a)
}

func evalParts(parts []comparison, vars map[string]any) []compared {
	var out []compared
	for _, p := range parts {
		v, _, err := p.left.Eval(vars)
		if err != nil {
			continue
		}
		b, _, err := p.right.Eval(vars)
		if err != nil {
			continue
		}
		out = append(out, compared{comparison: p, value: v, bound: b})
	}
	return out
}

// summarize gives what verdict.json holds as a gate's value and margin.
func summarize(cs []compared) (value any, margin *float64) {
	switch len(cs) {
	case 0:
		return nil, nil
	case 1:
		return plain(cs[0].value), cs[0].margin()
	}
	var words []string
	for _, c := range cs {
		words = append(words, fmt.Sprintf("%s = %v", c.text, plain(c.value)))
		if m := c.margin(); m != nil && (margin == nil || *m < *margin) {
			margin = m
		}
	}
	return strings.Join(words, ", "), margin
}

// plain gives a value as JSON can hold it; durations in words, as 1.2s.
func plain(v ref.Val) any {
	switch v := v.(type) {
	case types.Duration:
		return v.Duration.Round(10 * time.Microsecond).String()
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Sprint(float64(v))
		}
		return float64(v)
	}
	return v.Value()
}

// margin is how far the value is from the bound on the right side of it; nil where that means nothing.
func (c compared) margin() *float64 {
	v, okV := number(c.value)
	b, okB := number(c.bound)
	if !okV || !okB || math.IsInf(v-b, 0) || math.IsNaN(v-b) {
		return nil
	}
	var m float64
	switch c.op {
	case operators.Less, operators.LessEquals:
		m = b - v
	case operators.Greater, operators.GreaterEquals:
		m = v - b
	case operators.Equals:
		m = -math.Abs(v - b)
	case operators.NotEquals:
		m = math.Abs(v - b)
	}
	if m == 0 {
		m = 0 // no negative zero
	}
	return &m
}

func number(v ref.Val) (float64, bool) {
	switch v := v.(type) {
	case types.Int:
		return float64(v), true
	case types.Uint:
		return float64(v), true
	case types.Double:
		return float64(v), true
	case types.Duration:
		return seconds(v.Duration), true
	}
	return 0, false
}
