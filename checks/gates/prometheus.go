package gates

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// hiddenPrometheus carries the data of this evaluation to prometheus("x"), as hiddenLatency does.
const hiddenPrometheus = "@prometheus"

func prometheusMacro() cel.Macro {
	return cel.GlobalMacro("prometheus", 1, func(eh cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		return eh.NewCall("@prometheusOf", eh.NewIdent(hiddenPrometheus), args[0]), nil
	})
}

func prometheusFunction() cel.EnvOption {
	return cel.Function("@prometheusOf", cel.Overload("prometheus_of", []*types.Type{cel.DynType, cel.StringType}, cel.DoubleType,
		cel.BinaryBinding(func(o, name ref.Val) ref.Val {
			v, err := o.(*answers).ask(string(name.(types.String)))
			if err != nil {
				return types.WrapErr(err)
			}
			return types.Double(v)
		})))
}

// answers is what a Prometheus said, with the trace of the evaluation that asks.
type answers struct {
	object
	data Data
	seen *trace
}

func prometheusObject(d Data, t *trace) *answers {
	return &answers{object: object{typ: cel.ObjectType("Prometheus")}, data: d, seen: t}
}

func (a *answers) ask(query string) (float64, error) {
	v, err := a.data.Prometheus(query)
	if err != nil {
		a.seen.doubt(err.Error())
	}
	return v, err
}
