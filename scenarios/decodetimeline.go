package scenarios

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

func (d *decoder) entries(into *[]Entry) read {
	return d.list("timeline entry", func(_ int, n *yaml.Node) {
		*into = append(*into, d.entry(n))
	})
}

// bodies are the fields of which an entry has exactly one.
var bodies = []string{"wait", "do", "sequence", "parallel", "repeat", "random"}

func (d *decoder) entry(n *yaml.Node) Entry {
	e := Entry{pos: d.position(n)}
	ok := d.object(n, "a timeline entry",
		required("name", d.name(&e.Name)),
		optional("at", func(n *yaml.Node) {
			e.At = new(Span)
			d.span(e.At)(n)
		}),
		optional("after", d.references(&e)),
		optional("delay", d.span(&e.Delay)),
		optional("when", d.expression(&e.When, &e.places.when)),
		optional("within", d.positive(&e.Within)),
		optional("orElse", d.orElse(&e.OrElse)),
		optional("async", scalar(d, &e.Async, parseBool)),
		optional("wait", func(n *yaml.Node) { e.Wait = d.wait(n, &e) }),
		optional("do", func(n *yaml.Node) { e.Do = d.do(n) }),
		optional("sequence", d.entries(&e.Sequence)),
		optional("parallel", d.entries(&e.Parallel)),
		optional("repeat", func(n *yaml.Node) { e.Repeat = d.repeat(n) }),
		optional("random", func(n *yaml.Node) { e.Random = d.random(n) }))
	if ok {
		d.entryShape(n, &e)
	}
	return e
}

// entryShape checks what must hold between the fields of an entry.
func (d *decoder) entryShape(n *yaml.Node, e *Entry) {
	keys, has := mappingKeys(n), 0
	for _, b := range bodies {
		if slices.Contains(keys, b) {
			has++
		}
	}
	if has != 1 {
		d.report(n, Problem{Message: fmt.Sprintf("an entry has exactly one body, this one has %d", has), Allowed: bodies})
	}
	if e.At != nil && len(e.After) > 0 {
		d.reportf(n, "an entry begins either at a time or after others; use after with delay")
	}
	if e.When == "" && (e.Within != 0 || e.OrElse != "") {
		d.reportf(n, "within and orElse belong to when, or into wait beside its for")
	}
	if e.When != "" {
		e.Within = orDefault(e.Within, defaultWithin)
		e.OrElse = orElse(e.OrElse)
	}
}

func orDefault(s, otherwise Span) Span {
	if s == 0 {
		return otherwise
	}
	return s
}

func orElse(e OrElse) OrElse {
	if e == "" {
		return ElseInconclusive
	}
	return e
}

func (d *decoder) references(e *Entry) read {
	return func(n *yaml.Node) {
		d.texts(&e.After)(n)
		for _, c := range n.Content {
			e.places.refs = append(e.places.refs, d.position(c))
		}
		if n.Kind == yaml.ScalarNode {
			e.places.refs = []Position{d.position(n)}
		}
	}
}

func (d *decoder) expression(into *string, pos *Position) read {
	return func(n *yaml.Node) {
		*pos = d.position(n)
		if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			pos.Column++
		}
		d.text(into)(n)
	}
}

func (d *decoder) orElse(into *OrElse) read {
	return func(n *yaml.Node) {
		var s string
		d.choice(&s, string(ElseInconclusive), string(ElseFail), string(ElseSkip))(n)
		*into = OrElse(s)
	}
}

// wait is a duration, or a condition with a bound.
func (d *decoder) wait(n *yaml.Node, e *Entry) *Wait {
	var w Wait
	if n.Kind == yaml.ScalarNode {
		d.positive(&w.Time)(n)
		return &w
	}
	d.object(n, "wait",
		required("for", d.expression(&w.For, &e.places.wait)),
		optional("within", d.positive(&w.Within)),
		optional("orElse", d.orElse(&w.OrElse)))
	w.Within, w.OrElse = orDefault(w.Within, defaultWithin), orElse(w.OrElse)
	return &w
}

func (d *decoder) repeat(n *yaml.Node) *Repeat {
	var r Repeat
	d.object(n, "repeat",
		required("times", d.count(&r.Times, 1, 1000)),
		optional("every", d.span(&r.Every)),
		required("sequence", d.entries(&r.Sequence)))
	return &r
}

func (d *decoder) random(n *yaml.Node) *Random {
	var r Random
	d.object(n, "random",
		required("faults", d.list("fault", func(_ int, n *yaml.Node) {
			if do := d.do(n); do != nil {
				d.onlyFaults(n, do)
				r.Faults = append(r.Faults, *do)
			}
		})),
		required("every", d.distribution(&r.Every)),
		required("for", d.positive(&r.For)))
	return &r
}

// onlyFaults refuses what cannot be drawn at random: changes, and faults that
// nobody would end.
func (d *decoder) onlyFaults(n *yaml.Node, do *Do) {
	action, _ := d.opts.Words.Find(do.Action)
	switch {
	case !action.Fault:
		d.reportf(n, "%s is not a fault", do.Action)
	case action.Lasting && !do.Args.Has("for"):
		d.reportf(n, "%s needs for: here, or it would stay until the run's end", do.Action)
	}
}

// do is a mapping with one key, the action's name, and its arguments under it.
func (d *decoder) do(n *yaml.Node) *Do {
	if n.Kind == yaml.ScalarNode { // do: apiServerOutage
		return d.action(n, n, &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column})
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		d.report(n, Problem{Message: "is exactly one action, with its arguments under it", Allowed: d.opts.Words.Names()})
		return nil
	}
	args := d.resolve(n.Content[1])
	if args.Kind == yaml.ScalarNode && args.Tag == "!!null" {
		args = &yaml.Node{Kind: yaml.MappingNode, Line: args.Line, Column: args.Column}
	}
	return d.action(n, n.Content[0], args)
}

func (d *decoder) action(n, name, args *yaml.Node) *Do {
	action, known := d.opts.Words.Find(name.Value)
	if !known {
		d.report(name, Problem{
			Message: fmt.Sprintf("there is no fault or action %q", name.Value),
			Nearest: nearest(name.Value, d.opts.Words.Names()),
			Allowed: d.opts.Words.Names(),
		})
		return nil
	}
	do := &Do{Action: action.Name, Args: Args{}, Selects: map[string]*Selection{}, pos: d.position(n)}
	var fields []field
	for _, p := range action.Params {
		if p.Default != "" {
			d.param(do, p)(&yaml.Node{Kind: yaml.ScalarNode, Value: p.Default, Line: name.Line, Column: name.Column})
		}
		fields = append(fields, field{name: p.Name, required: p.Required, read: d.param(do, p)})
	}
	d.inside("."+name.Value, func() { d.object(args, name.Value, fields...) })
	return do
}
