package scenarios

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
)

// PlanSchema is the format of plan.json.
const PlanSchema = "shakedown.dev/plan/v1alpha1"

// Plan is a scenario with every choice made: the same scenario, facts and seed
// give the same plan, byte for byte. Sessions are not listed, there may be
// millions; a [StreamPlan] gives each of them from its own seed.
type Plan struct {
	Schema      string       `json:"schema"`
	Scenario    string       `json:"scenario"`
	Description string       `json:"description"`
	Source      string       `json:"source,omitempty"`
	Seed        uint64       `json:"seed"`
	Facts       Facts        `json:"facts"`
	Cluster     Cluster      `json:"cluster"`
	Teleport    Teleport     `json:"teleport"` // To is whole: From with the changes laid over
	Streams     []StreamPlan `json:"streams"`
	Timeline    []Step       `json:"timeline"`
	Gates       []Gate       `json:"gates"`
	Blast       Blast        `json:"blast"` // the worst case
	Limits      Limits       `json:"limits"`
	Validity    Validity     `json:"validity"`
	Recordings  Recordings   `json:"recordings"`
	Prometheus  *Prometheus  `json:"prometheus,omitempty"`
}

// Step is one node of the timeline. The steps are a graph, flat and in the
// order of the file: a step begins when all its Needs hold and then its When,
// which may take Within from that moment; past it OrElse says what it means.
// A group ends when all steps that name it as Parent have ended.
type Step struct {
	ID     string `json:"id"`   // Name, with #Round where it is repeated
	Name   string `json:"name"` // as in the scenario, what gates call it
	Round  int    `json:"round,omitempty"`
	Number string `json:"number"` // in the printed tree, such as 3.1
	Parent string `json:"parent,omitempty"`

	Needs  []Need `json:"needs"`
	When   string `json:"when,omitempty"`
	Within Span   `json:"within,omitempty"`
	OrElse OrElse `json:"orElse,omitempty"`
	Async  bool   `json:"async,omitempty"`

	Group Group `json:"group,omitempty"` // then neither Wait nor Do
	Wait  *Wait `json:"wait,omitempty"`
	Do    *Do   `json:"do,omitempty"`
	// Fault and Lasting are the action's, from the vocabulary.
	Fault   bool `json:"fault,omitempty"`
	Lasting bool `json:"lasting,omitempty"`
	Hits    Hits `json:"hits,omitempty"`

	pos Position
}

// Need holds Plus after a point in the life of another step.
type Need struct {
	Step  string `json:"step,omitempty"` // ID; empty: the timeline
	Point Point  `json:"point"`
	Plus  Span   `json:"plus,omitempty"`
}

// Point is a point in the life of a step.
type Point string

// The points. A step that was missed or skipped has ended.
const (
	Started Point = "started"
	Ended   Point = "ended"
)

// Group is what a step that contains others is.
type Group string

// The groups.
const (
	GroupSequence Group = "sequence"
	GroupParallel Group = "parallel"
	GroupRepeat   Group = "repeat"
	GroupRandom   Group = "random"
)

// NewPlan makes every choice. The error is [Problems]: what cannot work on
// such a cluster, and a blast radius over the limits.
func NewPlan(s *Scenario, facts Facts, seed uint64) (*Plan, error) {
	steps, problems := flatten(s, seed)
	p := &Plan{
		Schema: PlanSchema, Scenario: s.Name, Description: s.Description, Source: s.Source,
		Seed: seed, Facts: facts, Cluster: s.Cluster, Teleport: s.Teleport.resolved(s.Recordings.Mode),
		Timeline: steps, Gates: s.Expect, Limits: s.Limits, Validity: s.Validity, Recordings: s.Recordings, Prometheus: s.Prometheus,
	}
	for _, stream := range s.Load {
		p.Streams = append(p.Streams, newStreamPlan(stream, derive(seed, "stream/"+stream.Name)))
	}
	p.Blast = worstCase(steps, facts)
	problems = append(problems, infeasible(s, p)...)
	if err := problems.orNil(); err != nil {
		return nil, err
	}
	return p, nil
}

// derive makes a seed of its own for each thing that draws, by name, so that
// one more stream or fault does not change what the others draw.
func derive(seed uint64, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.NewPCG(seed, h.Sum64()).Uint64()
}

// resolved lays To over From, and the recording mode into the values of both.
func (t Teleport) resolved(mode string) Teleport {
	if mode != "" {
		t.From.Values = overlay(t.From.Values, map[string]any{"sessionRecording": mode})
	}
	if t.To == nil {
		return t
	}
	to := Release{Chart: t.From.Chart, Version: t.From.Version, Values: overlay(t.From.Values, t.To.Values)}
	if t.To.Chart != "" {
		to.Chart = t.To.Chart
	}
	if t.To.Version != "" {
		to.Version = t.To.Version
	}
	t.To = &to
	return t
}

// overlay is base with over laid on it, mapping by mapping, as Helm merges values.
func overlay(base, over map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range over {
		below, isMap := out[k].(map[string]any)
		above, alsoMap := v.(map[string]any)
		if isMap && alsoMap {
			v = overlay(below, above)
		}
		out[k] = v
	}
	return out
}

// Step finds a step by its ID.
func (p *Plan) Step(id string) (Step, bool) {
	for _, s := range p.Timeline {
		if s.ID == id {
			return s, true
		}
	}
	return Step{}, false
}

// Write is plan.json.
func (p *Plan) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(p)
}

// ReadPlan reads plan.json.
func ReadPlan(r io.Reader) (*Plan, error) {
	var p Plan
	if err := json.NewDecoder(r).Decode(&p); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	if p.Schema != PlanSchema {
		return nil, fmt.Errorf("read plan: schema %q, this version reads %q", p.Schema, PlanSchema)
	}
	return &p, nil
}
