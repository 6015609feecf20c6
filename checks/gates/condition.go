package gates

import (
	"fmt"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// RolloutView is how far a component's rollout is, as shares of the desired replicas, 0 to 1.
type RolloutView struct {
	Started bool
	Done    bool // every replica updated and ready, the old pods gone
	Updated float64
	Ready   float64 // updated and ready
	Old     int     // pods of older revisions, terminating ones too
}

// PodsView counts the pods a selector selects.
type PodsView struct {
	Total       int
	Ready       int
	Serving     int
	Terminating int
}

// SessionsView is the state of the load right now.
type SessionsView struct {
	Held    int
	Opened  int
	Clean   int
	Refused int
	Dropped int
	Stalled int
}

// World is what a condition may ask while a run goes on. It must answer from memory, at once; an
// error means that nothing is known yet, and the condition does not hold.
type World interface {
	Rollout(component string) (RolloutView, error)
	// Pods selects by component, revision (old, new), node, and whatever else the world knows.
	Pods(selector map[string]string) (PodsView, error)
	Sessions() (SessionsView, error)
	Recovered() (bool, error)
	Elapsed() time.Duration
}

// Condition is a type-checked condition of a timeline entry, such as rollout("proxy").updated >= 0.5.
type Condition struct {
	Expr    string
	program cel.Program
	parts   []comparison
}

// CompileCondition type-checks a condition; the error is Problems.
func CompileCondition(expr string, names Names) (*Condition, error) {
	l, err := newLanguage(conditionVocabulary(), names)
	if err != nil {
		return nil, err
	}
	checked, problems := l.check("", expr, cel.BoolType)
	if len(problems) > 0 {
		return nil, problems
	}
	p, err := l.program(checked)
	if err != nil {
		return nil, fmt.Errorf("condition %s: %w", expr, err)
	}
	return &Condition{Expr: expr, program: p, parts: l.comparisons(checked)}, nil
}

// Eval says whether the condition holds now, and what its left sides are, for the log. An error
// means that something it asks for is not known yet.
func (c *Condition) Eval(w World) (holds bool, value any, err error) {
	defer func() {
		if v := recover(); v != nil {
			holds, err = false, fmt.Errorf("condition %s crashed: %v", c.Expr, v)
		}
	}()
	seen := &trace{}
	vars := map[string]any{hiddenWorld: worldObject(w, seen), "sessions": sessionsNow(w, seen), "elapsed": w.Elapsed()}
	out, _, err := c.program.Eval(vars)
	value, _ = summarize(evalParts(c.parts, vars))
	if err != nil {
		return false, value, fmt.Errorf("condition %s: %w", c.Expr, err)
	}
	if len(seen.doubts) > 0 && out == types.True {
		return false, value, fmt.Errorf("condition %s: %s", c.Expr, seen)
	}
	return out == types.True, value, nil
}

// hiddenWorld carries the world of this evaluation to the functions; see hiddenLatency.
const hiddenWorld = "@world"

const (
	tRollout = "Rollout"
	tPods    = "Pods"
	tNow     = "SessionsNow"
)

func conditionVocabulary() vocabulary {
	return vocabulary{
		objects: []objectType{structType[RolloutView](tRollout, nil), structType[PodsView](tPods, nil), structType[SessionsView](tNow, nil)},
		variables: map[string]*types.Type{
			hiddenWorld: cel.DynType, "sessions": cel.ObjectType(tNow), "elapsed": cel.DurationType,
		},
		functions: conditionFunctions(),
		results: map[string]*types.Type{
			"rollout": cel.ObjectType(tRollout), "pods": cel.ObjectType(tPods), "recovered": cel.BoolType,
			"@rollout": cel.ObjectType(tRollout), "@pods": cel.ObjectType(tPods), "@recovered": cel.BoolType,
		},
		macros: []cel.Macro{worldMacro("rollout", 1), worldMacro("pods", 1), worldMacro("recovered", 0)},
	}
}

// worldMacro turns name(args) into @name(@world, args).
func worldMacro(name string, args int) cel.Macro {
	return cel.GlobalMacro(name, args, func(eh cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		return eh.NewCall("@"+name, append([]ast.Expr{eh.NewIdent(hiddenWorld)}, args...)...), nil
	})
}

func conditionFunctions() []cel.EnvOption {
	stringMap := cel.MapType(cel.StringType, cel.StringType)
	pods := func(w, arg ref.Val) ref.Val { return w.(*worldValue).pods(arg) }
	return []cel.EnvOption{
		cel.Function("@rollout", cel.Overload("world_rollout", []*types.Type{cel.DynType, cel.StringType}, cel.ObjectType(tRollout),
			cel.BinaryBinding(func(w, c ref.Val) ref.Val { return w.(*worldValue).rollout(string(c.(types.String))) }))),
		cel.Function("@pods",
			cel.Overload("world_pods_component", []*types.Type{cel.DynType, cel.StringType}, cel.ObjectType(tPods), cel.BinaryBinding(pods)),
			cel.Overload("world_pods_selector", []*types.Type{cel.DynType, stringMap}, cel.ObjectType(tPods), cel.BinaryBinding(pods))),
		cel.Function("@recovered", cel.Overload("world_recovered", []*types.Type{cel.DynType}, cel.BoolType,
			cel.UnaryBinding(func(w ref.Val) ref.Val { return w.(*worldValue).recovered() }))),
	}
}

// conditionArgument checks the component that rollout and pods name.
func (x *explainer) conditionArgument(e ast.Expr, call ast.CallExpr) {
	name := call.FunctionName()
	if (name != "@rollout" && name != "@pods") || len(call.Args()) < 2 {
		return
	}
	arg := call.Args()[1]
	if name == "@pods" && arg.Kind() == ast.MapKind {
		return
	}
	x.literal(e, arg, "component", x.names.Components)
}
