package scenarios

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// maxSteps bounds what repetitions may unfold to.
const maxSteps = 5000

// flattener turns the nested entries of a timeline into a graph of steps.
type flattener struct {
	s        *Scenario
	seed     uint64
	steps    []Step
	problems Problems
	// repeats says for each entry name in which repeat it stands, by name.
	repeats map[string]string
	byName  map[string]*Entry
}

// scope is where entries are being flattened.
type scope struct {
	parent string // ID of the group, empty at the top
	number string // of the group in the printed tree
	repeat string // name of the innermost repeat
	round  int    // of it, 0 outside
	first  []Need // of the first entry, or of all in a parallel group
	inRow  bool   // each entry waits for the one before it
}

// flatten unfolds the timeline. It also reports names that are used twice and
// references that lead nowhere.
func flatten(s *Scenario, seed uint64) ([]Step, Problems) {
	f := &flattener{s: s, seed: seed, repeats: map[string]string{}, byName: map[string]*Entry{}}
	f.index(s.Timeline, "")
	f.entries(s.Timeline, scope{first: []Need{{Point: Started}}, inRow: true})
	if len(f.problems) == 0 {
		f.cycles()
	}
	return f.steps, f.problems
}

func (f *flattener) report(pos Position, p Problem) {
	f.problems = append(f.problems, p.at(f.s.File, pos))
}

func (f *flattener) index(entries []Entry, repeat string) {
	for i := range entries {
		e := &entries[i]
		if _, taken := f.byName[e.Name]; taken {
			f.report(e.pos, Problem{Message: fmt.Sprintf("there are two timeline entries named %q", e.Name)})
		}
		f.byName[e.Name], f.repeats[e.Name] = e, repeat
		f.index(e.Sequence, repeat)
		f.index(e.Parallel, repeat)
		if e.Repeat != nil {
			f.index(e.Repeat.Sequence, e.Name)
		}
	}
}

// entries flattens a list and gives the IDs of its own steps.
func (f *flattener) entries(list []Entry, in scope) []string {
	var ids []string
	next := in.first
	for i := range list {
		if len(f.steps) >= maxSteps {
			f.report(list[i].pos, Problem{Message: fmt.Sprintf("the timeline unfolds to more than %d steps", maxSteps)})
			return ids
		}
		in.first = next
		step := f.step(&list[i], in, fmt.Sprintf("%s%d", dotted(in.number), i+1))
		ids = append(ids, step.ID)
		if in.inRow {
			point := Ended
			if list[i].Async {
				point = Started
			}
			next = []Need{{Step: step.ID, Point: point}}
		}
	}
	return ids
}

func dotted(number string) string {
	if number == "" {
		return ""
	}
	return number + "."
}

func (f *flattener) step(e *Entry, in scope, number string) Step {
	s := Step{
		ID: withRound(e.Name, in.round), Name: e.Name, Round: in.round, Number: number, Parent: in.parent,
		Needs: f.needs(e, in), When: e.When, Within: e.Within, OrElse: e.OrElse, Async: e.Async,
		Wait: e.Wait, pos: e.pos,
	}
	if e.Do != nil {
		f.action(&s, e.Do, in)
	}
	switch {
	case e.Sequence != nil:
		s.Group = GroupSequence
	case e.Parallel != nil:
		s.Group = GroupParallel
	case e.Repeat != nil:
		s.Group = GroupRepeat
	case e.Random != nil:
		s.Group = GroupRandom
	}
	f.steps = append(f.steps, s)
	f.below(e, s, in)
	return s
}

func withRound(name string, round int) string {
	if round == 0 {
		return name
	}
	return fmt.Sprintf("%s#%d", name, round)
}

// below flattens what a group contains.
func (f *flattener) below(e *Entry, s Step, in scope) {
	in.parent, in.number = s.ID, s.Number
	begun := Need{Step: s.ID, Point: Started}
	in.first, in.inRow = []Need{begun}, true
	switch s.Group {
	case GroupSequence:
		f.entries(e.Sequence, in)
	case GroupParallel:
		in.inRow = false
		f.entries(e.Parallel, in)
	case GroupRepeat:
		f.rounds(e, in, begun)
	case GroupRandom:
		f.draws(e, in, begun)
	}
}

func (f *flattener) rounds(e *Entry, in scope, begun Need) {
	outer, number := in.round, in.number
	in.repeat = e.Name
	for r := 1; r <= e.Repeat.Times; r++ {
		in.round = max(outer-1, 0)*e.Repeat.Times + r
		in.number = fmt.Sprintf("%s.%d", number, r)
		begun.Plus = Span(r-1) * e.Repeat.Every
		if begun.Plus > 0 {
			in.first = append(in.first, begun)
		}
		last := f.entries(e.Repeat.Sequence, in)
		in.first = nil
		for _, id := range last {
			in.first = append(in.first, Need{Step: id, Point: Ended})
		}
	}
}

// draws writes out what Random leaves to chance: which fault, and when; the
// next one waits for the one before it.
func (f *flattener) draws(e *Entry, in scope, begun Need) {
	rng := rand.New(rand.NewPCG(derive(f.seed, "random/"+in.parent), 0))
	needs := []Need{begun}
	for i := 1; ; i++ {
		begun.Plus += Span(max(e.Random.Every.Draw(rng).Round(time.Millisecond), time.Millisecond))
		if begun.Plus >= Span(e.Random.For) || len(f.steps) >= maxSteps {
			return
		}
		do := e.Random.Faults[rng.IntN(len(e.Random.Faults))]
		s := Step{
			ID: fmt.Sprintf("%s.%d", in.parent, i), Name: fmt.Sprintf("%s.%d", e.Name, i), Round: in.round,
			Number: fmt.Sprintf("%s.%d", in.number, i), Parent: in.parent,
			Needs: append(slices.Clone(needs), begun), pos: e.pos,
		}
		if i == 1 {
			s.Needs = []Need{begun}
		}
		f.action(&s, &do, in)
		f.steps = append(f.steps, s)
		needs = []Need{{Step: s.ID, Point: Ended}}
	}
}

// needs says what must have happened before an entry begins.
func (f *flattener) needs(e *Entry, in scope) []Need {
	var needs []Need
	switch {
	case e.At != nil:
		needs = append(needs, Need{Point: Started, Plus: *e.At})
	case len(e.After) > 0:
		for i, name := range e.After {
			if id, ok := f.refer(name, e.places.refs[i], in); ok {
				needs = append(needs, Need{Step: id, Point: Ended})
			}
		}
	default:
		needs = slices.Clone(in.first)
	}
	for i := range needs {
		needs[i].Plus += e.Delay
	}
	if in.parent != "" && (e.At != nil || len(e.After) > 0) {
		needs = append(needs, Need{Step: in.parent, Point: Started})
	}
	return needs
}

// refer finds the step that an entry's name means from where it is named:
// inside a repeat, the one of the same round.
func (f *flattener) refer(name string, pos Position, in scope) (string, bool) {
	if _, known := f.byName[name]; !known {
		names := slices.Sorted(maps.Keys(f.byName))
		f.report(pos, Problem{Message: fmt.Sprintf("there is no timeline entry %q", name), Nearest: nearest(name, names), Allowed: names})
		return "", false
	}
	switch repeat := f.repeats[name]; repeat {
	case "":
		return name, true
	case in.repeat:
		return withRound(name, in.round), true
	default:
		f.report(pos, Problem{Message: fmt.Sprintf("entry %q is repeated by %q and cannot be named from outside of it", name, repeat), Nearest: repeat})
		return "", false
	}
}

// action fills in what a step does, with the seeds of its selections.
func (f *flattener) action(s *Step, do *Do, in scope) {
	action, _ := f.s.words.Find(do.Action)
	s.Fault, s.Hits = action.Fault, action.Hits
	s.Lasting = action.Lasting && !do.Args.Has("for")
	out := Do{Action: do.Action, Args: maps.Clone(do.Args), Selects: map[string]*Selection{}, pos: do.pos}
	for name, sel := range do.Selects {
		chosen := *sel
		if chosen.By == "random" {
			chosen.Seed = derive(f.seed, "select/"+s.ID+"/"+name)
		}
		out.Selects[name] = &chosen
	}
	for _, p := range action.Params {
		if p.Type == TypeEntry && out.Args.Has(p.Name) {
			out.Args[p.Name] = f.referFault(out.Args.String(p.Name), do.pos, in)
		}
	}
	s.Do = &out
}

// referFault is refer for an entry whose fault is to be ended.
func (f *flattener) referFault(name string, pos Position, in scope) string {
	id, ok := f.refer(name, pos, in)
	if !ok {
		return name
	}
	e := f.byName[name]
	action := Action{}
	if e.Do != nil {
		action, _ = f.s.words.Find(e.Do.Action)
	}
	if !action.Lasting {
		f.report(pos, Problem{Message: fmt.Sprintf("entry %q has no fault that stays in force, so there is nothing to end", name)})
	}
	return id
}
