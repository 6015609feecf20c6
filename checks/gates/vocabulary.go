package gates

import (
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// The object types of gates.
const (
	tCapacities = "Capacities"
	tCapacity   = "Capacity"
	tSessions   = "Sessions"
	tRecordings = "Recordings"
	tLatency    = "Latency"
	tGoodput    = "Goodput"
	tRecovery   = "Recovery"
)

// A narrowing is a method that keeps the object's type and narrows its window or filter.
type narrowing struct {
	name  string
	on    []string
	names func(Names) []string // allowed arguments; nil: any
	what  string
	apply func(*Window, *Filter, string)
}

func narrowings() []narrowing {
	windowed := []string{tCapacity, tSessions, tRecordings, tLatency, tGoodput, tMetric}
	phases := func(n Names) []string { return n.Phases }
	return []narrowing{
		{"during", windowed, phases, "phase", func(w *Window, _ *Filter, s string) { *w = Window{Kind: During, Phase: s} }},
		{"after", windowed, phases, "phase", func(w *Window, _ *Filter, s string) { *w = Window{Kind: After, Phase: s} }},
		{"before", windowed, phases, "phase", func(w *Window, _ *Filter, s string) { *w = Window{Kind: Before, Phase: s} }},
		{"stream", []string{tSessions, tRecordings, tGoodput}, func(n Names) []string { return n.Streams }, "stream",
			func(_ *Window, f *Filter, s string) { f.Stream = s }},
		{"kind", []string{tSessions, tRecordings, tGoodput}, func(n Names) []string { return n.Kinds }, "kind of session",
			func(_ *Window, f *Filter, s string) { f.Kind = s }},
		{"mode", []string{tRecordings}, func(Names) []string { return RecordingModes() }, "recording mode",
			func(_ *Window, f *Filter, s string) { f.Mode = s }},
		{"storage", []string{tRecordings}, nil, "storage", func(_ *Window, f *Filter, s string) { f.Storage = s }},
		{"of", []string{tMetric}, func(n Names) []string { return n.Components }, "component", func(_ *Window, f *Filter, s string) { f.Component = s }},
		{"holder", []string{tRecordings}, func(Names) []string { return HolderEnds() }, "end of a holder",
			func(_ *Window, f *Filter, s string) { f.Holder = s }},
	}
}

// RecordingModes are Teleport's session recording modes that record.
func RecordingModes() []string { return []string{"node", "node-sync", "proxy", "proxy-sync"} }

// HolderEnds are the ways in which the pod that holds a recording can end.
func HolderEnds() []string {
	return []string{"alive", "deleted", "killed", "evicted", "node-lost", "failed", "gone", "unknown"}
}

func gateVocabulary(names Names) vocabulary {
	methods := map[string]map[string]string{}
	var fns []cel.EnvOption
	var macros []cel.Macro
	for _, n := range narrowings() {
		fns = append(fns, narrowFunction(n))
		macros = append(macros, hoist(n.name, 1))
		for _, t := range n.on {
			if methods[t] == nil {
				methods[t] = map[string]string{}
			}
			methods[t][n.name] = t
		}
	}
	methods[tCapacity]["secondsBelow"] = ""
	macros = append(macros, hoist("after", 2))
	fns = append(fns, latencyFunction(), metricsFunction(), prometheusFunction(), secondsBelowFunction())
	return vocabulary{
		objects: gateObjects(names, methods),
		variables: map[string]*types.Type{
			"capacity": cel.ObjectType(tCapacities), "sessions": cel.ObjectType(tSessions),
			"recordings": cel.ObjectType(tRecordings), "goodput": cel.ObjectType(tGoodput),
			"recovery": cel.ObjectType(tRecovery), hiddenLatency: cel.DynType, hiddenMetrics: cel.DynType, hiddenPrometheus: cel.DynType,
		},
		functions: fns,
		results:   map[string]*types.Type{"latency": cel.ObjectType(tLatency), "metrics": cel.ObjectType(tMetric), "prometheus": cel.DoubleType},
		macros:    append(macros, latencyMacro(), metricsMacro(), prometheusMacro()),
	}
}

func gateObjects(names Names, methods map[string]map[string]string) []objectType {
	all := objectType{typ: cel.ObjectType(tCapacities), fields: map[string]*types.Type{}}
	for _, c := range names.Components {
		all.add(c, cel.ObjectType(tCapacity))
	}
	return []objectType{
		all,
		structType[Capacity](tCapacity, methods[tCapacity]),
		structType[Sessions](tSessions, methods[tSessions]),
		structType[Recordings](tRecordings, methods[tRecordings]),
		structType[Latency](tLatency, methods[tLatency]),
		structType[Goodput](tGoodput, methods[tGoodput]),
		structType[Recovery](tRecovery, nil),
		structType[Metric](tMetric, methods[tMetric]),
	}
}

// narrowFunction declares the method on each of its types, after also with a length.
func narrowFunction(n narrowing) cel.EnvOption {
	var overloads []cel.FunctionOpt
	for _, t := range n.on {
		obj := cel.ObjectType(t)
		overloads = append(overloads, cel.MemberOverload(t+"_"+n.name, []*types.Type{obj, cel.StringType}, obj,
			cel.BinaryBinding(func(o, arg ref.Val) ref.Val { return narrow(n, o, arg, 0) })))
		if n.name != "after" {
			continue
		}
		overloads = append(overloads, cel.MemberOverload(t+"_after_for", []*types.Type{obj, cel.StringType, cel.DurationType}, obj,
			cel.FunctionBinding(func(args ...ref.Val) ref.Val {
				return narrow(n, args[0], args[1], args[2].(types.Duration).Duration)
			})))
	}
	return cel.Function(n.name, overloads...)
}

func narrow(n narrowing, target, arg ref.Val, length time.Duration) ref.Val {
	o, ok := target.(*object)
	if !ok {
		return types.NewErr("%v has no %s", target.Type(), n.name)
	}
	w, f := o.window, o.filter
	n.apply(&w, &f, string(arg.(types.String)))
	if length > 0 {
		w.For = length
	}
	return o.narrow(w, f)
}

func secondsBelowFunction() cel.EnvOption {
	return cel.Function("secondsBelow", cel.MemberOverload("capacity_seconds_below",
		[]*types.Type{cel.ObjectType(tCapacity), cel.DoubleType}, cel.DoubleType,
		cel.BinaryBinding(func(o, share ref.Val) ref.Val {
			v, err := o.(*object).below(float64(share.(types.Double)))
			if err != nil {
				return types.WrapErr(err)
			}
			return types.Double(v)
		})))
}
