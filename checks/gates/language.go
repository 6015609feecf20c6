package gates

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// vocabulary is what one dialect (gates, conditions) declares on top of CEL's own words.
type vocabulary struct {
	objects   []objectType
	variables map[string]*types.Type
	functions []cel.EnvOption
	// results gives the type of global functions, for finding the nearest right word.
	results map[string]*types.Type
	macros  []cel.Macro
}

// language is a dialect made ready for one scenario.
type language struct {
	env     *cel.Env
	vocab   vocabulary
	objects map[string]objectType
	names   Names
}

func newLanguage(v vocabulary, names Names) (*language, error) {
	l := &language{vocab: v, objects: map[string]objectType{}, names: names}
	for _, o := range v.objects {
		l.objects[o.typ.TypeName()] = o
	}
	reg, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("make the type registry: %w", err)
	}
	opts := []cel.EnvOption{
		cel.CustomTypeProvider(&provider{Provider: reg, objects: l.objects}),
		cel.CustomTypeAdapter(reg),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableMacroCallTracking(),
		cel.Macros(v.macros...),
		cel.ParserExpressionSizeLimit(maxLength),
	}
	for name, t := range v.variables {
		opts = append(opts, cel.Variable(name, t))
	}
	env, err := cel.NewEnv(append(opts, v.functions...)...)
	if err != nil {
		return nil, fmt.Errorf("make the expression language: %w", err)
	}
	l.env = env
	return l, nil
}

// An expression is a handful of comparisons; what is far beyond that is a mistake.
const (
	maxLength = 4096    // characters
	maxCost   = 1 << 20 // CEL's own units, about one a step
)

// program evaluates every part of an expression, so that a value that does not exist is noticed
// also where a short circuit would have stepped over it.
func (l *language) program(a *cel.Ast) (cel.Program, error) {
	return l.env.Program(a, cel.EvalOptions(cel.OptExhaustiveEval), cel.CostLimit(maxCost))
}

// check parses and type-checks one expression and gives all that is wrong with it.
func (l *language) check(gate, expr string, want *types.Type) (*cel.Ast, Problems) {
	parsed, iss := l.env.Parse(expr)
	if iss.Err() != nil {
		return nil, issueProblems(gate, iss)
	}
	if ps := l.explain(gate, parsed.NativeRep()); len(ps) > 0 {
		return nil, ps
	}
	checked, iss := l.env.Check(parsed)
	if iss.Err() != nil {
		return nil, issueProblems(gate, iss)
	}
	if !checked.OutputType().IsExactType(want) {
		return nil, Problems{{Gate: gate, Line: 1, Column: 1,
			Message: fmt.Sprintf("the expression gives %s, not %s", checked.OutputType(), want),
			Hint:    "compare it with a bound, as in sessions.dropped == 0"}}
	}
	return checked, nil
}

func issueProblems(gate string, iss *cel.Issues) Problems {
	var ps Problems
	for _, e := range iss.Errors() {
		ps = append(ps, Problem{Gate: gate, Line: e.Location.Line(), Column: e.Location.Column() + 1, Message: e.Message})
	}
	return ps
}

// hoist lets a window follow a value: sessions.dropped.during("x") means
// sessions.during("x").dropped, because a number alone knows nothing of windows.
func hoist(name string, args int) cel.Macro {
	return cel.ReceiverMacro(name, args, func(eh cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		if target.Kind() != ast.SelectKind || isComponent(target) {
			return nil, nil
		}
		sel := target.AsSelect()
		return eh.NewSelect(eh.NewMemberCall(name, sel.Operand(), args...), sel.FieldName()), nil
	})
}

// isComponent says whether the expression is capacity.<component>, which takes a window itself.
func isComponent(e ast.Expr) bool {
	op := e.AsSelect().Operand()
	return op.Kind() == ast.IdentKind && op.AsIdent() == "capacity"
}
