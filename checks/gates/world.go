package gates

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// worldValue is the World as a CEL value, with the trace of the evaluation it belongs to.
type worldValue struct {
	object
	world World
	seen  *trace
}

func worldObject(w World, t *trace) *worldValue {
	return &worldValue{object: object{typ: cel.ObjectType("World")}, world: w, seen: t}
}

func (w *worldValue) rollout(component string) ref.Val {
	return windowed(tRollout, w.seen, Window{}, Filter{}, func(Window, Filter) (RolloutView, error) { return w.world.Rollout(component) })
}

func (w *worldValue) pods(arg ref.Val) ref.Val {
	selector := map[string]string{}
	if s, ok := arg.(types.String); ok {
		selector["component"] = string(s)
	} else {
		m, err := arg.ConvertToNative(reflect.TypeFor[map[string]string]())
		if err != nil {
			return types.WrapErr(fmt.Errorf("selector of pods: %w", err))
		}
		selector = m.(map[string]string)
	}
	return windowed(tPods, w.seen, Window{}, Filter{}, func(Window, Filter) (PodsView, error) { return w.world.Pods(selector) })
}

func (w *worldValue) recovered() ref.Val {
	ok, err := w.world.Recovered()
	if err != nil {
		w.seen.doubt(err.Error())
		return types.WrapErr(err)
	}
	return types.Bool(ok)
}

func sessionsNow(w World, t *trace) *object {
	return windowed(tNow, t, Window{}, Filter{}, func(Window, Filter) (SessionsView, error) { return w.Sessions() })
}
