package gates

import (
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// tMetric is the type of metrics("NAME").
const tMetric = "Metric"

// Metric is what scrapes of one metric gave over a window, in the metric's own unit. A scrape adds the series of one
// name up, so each number is one of a pod.
type Metric struct {
	Count int     `json:"count"` // scrapes
	Pods  int     `json:"pods"`  // that were scraped
	Min   float64 `json:"min"`   // of any pod
	Max   float64 `json:"max"`
	Last  float64 `json:"last"` // the highest among the pods' last scrapes
	// Growth is the most by which one pod's last scrape exceeds its first.
	Growth float64 `json:"growth"`
	// Increase is by how much a counter rose over all pods, restarts taken into account.
	Increase float64 `json:"increase"`
	// PerSession is what each session that ended left behind in the pod it went through, where most was: a leak.
	// NaN: not known, since too few ended.
	PerSession float64 `json:"-"`
}

// hiddenMetrics carries the data of this evaluation to metrics("x"), as hiddenLatency does.
const hiddenMetrics = "@metrics"

func metricsMacro() cel.Macro {
	return cel.GlobalMacro("metrics", 1, func(eh cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		return eh.NewCall("@metricsOf", eh.NewIdent(hiddenMetrics), args[0]), nil
	})
}

func metricsFunction() cel.EnvOption {
	return cel.Function("@metricsOf", cel.Overload("metrics_of", []*types.Type{cel.DynType, cel.StringType}, cel.ObjectType(tMetric),
		cel.BinaryBinding(func(o, name ref.Val) ref.Val {
			return o.(*object).narrow(Window{}, Filter{Metric: string(name.(types.String))})
		})))
}

// metricObject knows perSession only where enough sessions went through the pods.
func metricObject(d Data, t *trace, w Window, f Filter) *object {
	o := windowed(tMetric, t, w, f, func(w Window, f Filter) (Metric, error) { return d.Metric(f, w) })
	plain := o.get
	o.get = func(field string) (any, error) {
		v, err := plain(field)
		if n, ok := v.(float64); err == nil && ok && math.IsNaN(n) {
			err = fmt.Errorf("%s of %s %s: too few sessions ended in the pods to tell: %w", field, f.Metric, w, ErrNoSamples)
			t.doubt(err.Error())
		}
		return v, err
	}
	o.narrow = func(w Window, f Filter) *object { return metricObject(d, t, w, f) }
	return o
}
