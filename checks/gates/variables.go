package gates

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// hiddenLatency carries the data of this evaluation to latency("x"), which as a plain function would
// have no way to it; latencyMacro puts it in. @ keeps the name out of reach of authors.
const hiddenLatency = "@latency"

func latencyMacro() cel.Macro {
	return cel.GlobalMacro("latency", 1, func(eh cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		return eh.NewCall("@latencyOf", eh.NewIdent(hiddenLatency), args[0]), nil
	})
}

func latencyFunction() cel.EnvOption {
	return cel.Function("@latencyOf", cel.Overload("latency_of", []*types.Type{cel.DynType, cel.StringType}, cel.ObjectType(tLatency),
		cel.BinaryBinding(func(o, name ref.Val) ref.Val {
			return o.(*object).narrow(Window{}, Filter{Stream: string(name.(types.String))})
		})))
}

// gateVariables makes the top-level values of one evaluation.
func gateVariables(d Data, t *trace) map[string]any {
	return map[string]any{
		"capacity": capacities(d, t),
		"sessions": windowed(tSessions, t, Window{}, Filter{}, func(w Window, f Filter) (Sessions, error) { return d.Sessions(f, w) }),
		"recordings": windowed(tRecordings, t, Window{}, Filter{},
			func(w Window, f Filter) (Recordings, error) {
				r, err := d.Recordings(f, w)
				t.pending = max(t.pending, r.Pending)
				return r, err
			}),
		"goodput":        windowed(tGoodput, t, Window{}, Filter{}, func(w Window, f Filter) (Goodput, error) { return d.Goodput(f, w) }),
		"recovery":       recoveryObject(d, t),
		hiddenPrometheus: prometheusObject(d, t),
		hiddenMetrics:    metricObject(d, t, Window{}, Filter{}),
		hiddenLatency: windowed(tLatency, t, Window{}, Filter{},
			func(w Window, f Filter) (Latency, error) { return d.Latency(f.Stream, w) }),
	}
}

// windowed is an object whose fields come from load, called at most once and only when one is read.
func windowed[T any](name string, t *trace, w Window, f Filter, load func(Window, Filter) (T, error)) *object {
	o := &object{typ: cel.ObjectType(name), window: w, filter: f}
	o.narrow = func(w Window, f Filter) *object { return windowed(name, t, w, f, load) }
	var got T
	var err error
	loaded := false
	o.get = func(field string) (any, error) {
		if !loaded {
			got, err = load(w, f)
			loaded = true
		}
		if err != nil {
			t.doubt(err.Error())
			return nil, err
		}
		return fieldOf(got, field)
	}
	return o
}

func capacities(d Data, t *trace) *object {
	return &object{typ: cel.ObjectType(tCapacities), get: func(component string) (any, error) {
		return capacityObject(d, t, component, Window{}), nil
	}}
}

func capacityObject(d Data, t *trace, component string, w Window) *object {
	o := windowed(tCapacity, t, w, Filter{}, func(w Window, _ Filter) (Capacity, error) { return d.Capacity(component, w) })
	o.narrow = func(w Window, _ Filter) *object { return capacityObject(d, t, component, w) }
	o.below = func(share float64) (float64, error) {
		v, err := d.SecondsBelow(component, share, w)
		if err != nil {
			t.doubt(err.Error())
		}
		return v, err
	}
	return o
}

// recoveryObject knows Seconds only as a lower bound while recovery was not seen: enough to fail a
// gate that sets an upper bound, never enough to pass one.
func recoveryObject(d Data, t *trace) *object {
	return &object{typ: cel.ObjectType(tRecovery), get: func(field string) (any, error) {
		r, err := d.Recovery()
		if err != nil {
			t.doubt(err.Error())
			return nil, err
		}
		if field == "seconds" && !r.Recovered {
			t.doubt(fmt.Sprintf("no recovery seen in the %.0f s after the last disturbance", r.Seconds))
		}
		return fieldOf(r, field)
	}}
}

// ErrNoSamples is the reason of every value that does not exist because nothing was sampled.
var ErrNoSamples = errors.New("no samples")
