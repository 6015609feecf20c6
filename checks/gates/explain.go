package gates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// explain finds unknown names with the nearest right word. CEL would find them too, but knows
// neither what was meant nor that the argument of during is the name of a phase.
func (l *language) explain(gate string, a *ast.AST) Problems {
	x := &explainer{language: l, gate: gate, info: a.SourceInfo(), local: map[string]bool{}}
	x.walk(a.Expr())
	return x.problems
}

type explainer struct {
	*language
	gate     string
	info     *ast.SourceInfo
	local    map[string]bool // variables of comprehensions
	problems Problems
}

func (x *explainer) say(e ast.Expr, p Problem, format string, args ...any) {
	loc := x.info.GetStartLocation(e.ID())
	p.Gate, p.Message = x.gate, fmt.Sprintf(format, args...)
	p.Line, p.Column = max(loc.Line(), 1), max(loc.Column(), 0)+1
	x.problems = append(x.problems, p)
}

// instead is the help that a wrong word gets.
func instead(wrong string, allowed []string) Problem {
	if n := nearest(wrong, allowed); n != "" {
		return Problem{Nearest: n}
	}
	return Problem{Allowed: allowed}
}

// walk reports what is wrong below e and gives e's object type, or nil where it has none or is wrong.
func (x *explainer) walk(e ast.Expr) *types.Type {
	switch e.Kind() {
	case ast.IdentKind:
		return x.ident(e)
	case ast.SelectKind:
		return x.field(e)
	case ast.CallKind:
		return x.call(e)
	case ast.ListKind:
		for _, el := range e.AsList().Elements() {
			x.walk(el)
		}
	case ast.MapKind:
		x.mapping(e)
	case ast.ComprehensionKind:
		x.comprehension(e)
	}
	return nil
}

func (x *explainer) ident(e ast.Expr) *types.Type {
	name := e.AsIdent()
	if t, ok := x.vocab.variables[name]; ok {
		return t
	}
	if x.local[name] {
		return nil
	}
	if _, ok := x.env.CELTypeProvider().FindIdent(name); ok {
		return nil
	}
	x.say(e, instead(name, x.topNames()), "unknown name %q", name)
	return nil
}

func (x *explainer) topNames() []string {
	var names []string
	for n := range x.vocab.variables {
		if !strings.HasPrefix(n, "@") {
			names = append(names, n)
		}
	}
	for n := range x.vocab.results {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func (x *explainer) field(e ast.Expr) *types.Type {
	sel := e.AsSelect()
	t := x.walk(sel.Operand())
	o, ok := x.objectOf(t)
	if !ok {
		return nil
	}
	ft, ok := o.fields[sel.FieldName()]
	if !ok {
		what := "field"
		if o.typ.TypeName() == tCapacities {
			what = "component"
		}
		x.say(e, instead(sel.FieldName(), o.order), "unknown %s %q of %s", what, sel.FieldName(), strings.ToLower(o.typ.TypeName()))
		return nil
	}
	return ft
}

func (x *explainer) objectOf(t *types.Type) (objectType, bool) {
	if t == nil {
		return objectType{}, false
	}
	o, ok := x.objects[t.TypeName()]
	return o, ok
}

func (x *explainer) call(e ast.Expr) *types.Type {
	call := e.AsCall()
	for _, arg := range call.Args() {
		x.walk(arg)
	}
	name := call.FunctionName()
	if call.IsMemberFunction() {
		return x.method(e, call)
	}
	if name == "@latencyOf" {
		x.literal(e, call.Args()[1], "stream or kind of session", append(slices.Clone(x.names.Streams), x.names.Kinds...))
		return x.vocab.results["latency"]
	}
	if name == "@prometheusOf" {
		x.literal(e, call.Args()[1], "query", x.names.Queries)
		return x.vocab.results["prometheus"]
	}
	if name == "@metricsOf" {
		x.literal(e, call.Args()[1], "metric", x.names.Metrics)
		return x.vocab.results["metrics"]
	}
	if t, ok := x.vocab.results[name]; ok {
		x.conditionArgument(e, call)
		return t
	}
	if !x.env.HasFunction(name) {
		x.say(e, instead(name, x.topNames()), "unknown function %q", name)
	}
	return nil
}

func (x *explainer) method(e ast.Expr, call ast.CallExpr) *types.Type {
	t := x.walk(call.Target())
	name := call.FunctionName()
	o, ok := x.objectOf(t)
	if !ok {
		if !x.env.HasFunction(name) {
			x.say(e, instead(name, methodNames(x.objects)), "unknown function %q", name)
		}
		return nil
	}
	if _, ok := o.methods[name]; !ok {
		x.say(e, instead(name, keys(o.methods)), "%s has no function %q", strings.ToLower(o.typ.TypeName()), name)
		return nil
	}
	for _, n := range narrowings() {
		if n.name == name && n.names != nil && len(call.Args()) > 0 {
			x.literal(e, call.Args()[0], n.what, n.names(x.names))
		}
	}
	if o.methods[name] == "" {
		return nil
	}
	return x.objects[o.methods[name]].typ
}

// literal wants a name that is written out, so that it can be checked before anything starts.
func (x *explainer) literal(call, arg ast.Expr, what string, allowed []string) {
	s, ok := "", false
	if arg.Kind() == ast.LiteralKind {
		var str types.String
		str, ok = arg.AsLiteral().(types.String)
		s = string(str)
	}
	switch {
	case !ok:
		x.say(call, Problem{}, "the name of a %s must be written out in quotes", what)
	case !slices.Contains(allowed, s):
		x.say(arg, instead(s, allowed), "unknown %s %q", what, s)
	}
}

func (x *explainer) mapping(e ast.Expr) {
	for _, entry := range e.AsMap().Entries() {
		m := entry.AsMapEntry()
		x.walk(m.Key())
		x.walk(m.Value())
	}
}

func (x *explainer) comprehension(e ast.Expr) {
	c := e.AsComprehension()
	x.walk(c.IterRange())
	for _, v := range []string{c.IterVar(), c.IterVar2(), c.AccuVar()} {
		x.local[v] = true
	}
	for _, part := range []ast.Expr{c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
		x.walk(part)
	}
}
