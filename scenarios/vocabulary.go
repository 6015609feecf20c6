package scenarios

import "slices"

// Vocabulary is the actions that may stand under do:, handed in by whoever
// can carry them out.
type Vocabulary []Action

// Action is one word of the vocabulary.
type Action struct {
	Name string
	Doc  string // one sentence, shown in errors and in docs/faults.md
	// Fault: it breaks something, has to prove that it bit and that it healed,
	// and counts in the blast radius. The others are changes, such as a rollout.
	Fault bool
	// Hits is what counts in the blast radius: pods, nodes, or a whole component.
	Hits Hits
	// Lasting faults stay in force until for: has passed, a heal: names them,
	// or the run ends. The others are over when they are proved.
	Lasting bool
	Params  []Param
}

// Hits is what an action takes away while it is in force.
type Hits string

// What can be hit.
const (
	HitsNothing Hits = ""
	HitsPods    Hits = "pods"
	HitsNodes   Hits = "nodes"
)

// Param is a parameter of an action.
type Param struct {
	Name     string
	Type     ParamType
	Doc      string
	Required bool
	// Default is as the author would write it; empty: left out.
	Default string
	Allowed []string // of a choice
	Min     float64  // of a count
	Max     float64  // of a count; 0: no bound
}

// ParamType is how a parameter is written.
type ParamType string

// The types of parameters.
const (
	TypeDuration ParamType = "duration"
	TypeCount    ParamType = "whole number"
	TypeShare    ParamType = "share"
	TypeText     ParamType = "text"
	TypeChoice   ParamType = "choice"
	TypeBool     ParamType = "true or false"
	TypeSize     ParamType = "size"
	TypeByteRate ParamType = "byte rate"
	TypeTexts    ParamType = "list of texts"
	TypeTree     ParamType = "tree" // any YAML mapping, such as Helm values
	TypePods     ParamType = "pod selection"
	TypeNodes    ParamType = "node selection"
	TypeEntry    ParamType = "name of a timeline entry"
)

// Find looks an action up by name.
func (v Vocabulary) Find(name string) (Action, bool) {
	i := slices.IndexFunc(v, func(a Action) bool { return a.Name == name })
	if i < 0 {
		return Action{}, false
	}
	return v[i], true
}

// Names lists the actions in their order.
func (v Vocabulary) Names() []string {
	names := make([]string, len(v))
	for i := range v {
		names[i] = v[i].Name
	}
	return names
}

// Only is the vocabulary's part that the names are of.
func (v Vocabulary) Only(names ...string) Vocabulary {
	return slices.DeleteFunc(slices.Clone(v), func(a Action) bool { return !slices.Contains(names, a.Name) })
}

// Without is the vocabulary without the named actions.
func (v Vocabulary) Without(names ...string) Vocabulary {
	return slices.DeleteFunc(slices.Clone(v), func(a Action) bool { return slices.Contains(names, a.Name) })
}

func (a Action) param(name string) (Param, bool) {
	i := slices.IndexFunc(a.Params, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return Param{}, false
	}
	return a.Params[i], true
}

func (a Action) paramNames() []string {
	names := make([]string, len(a.Params))
	for i := range a.Params {
		names[i] = a.Params[i].Name
	}
	return names
}
