package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

func (d *decoder) stream(n *yaml.Node) Stream {
	s := Stream{pos: d.position(n)}
	var single bool
	d.object(n, "a stream",
		required("name", d.name(&s.Name)),
		optional("session", func(n *yaml.Node) {
			single = true
			s.Mix = append(s.Mix, Weighted{Weight: 1, Session: d.session(n)})
		}),
		optional("mix", d.list("weighted session", func(_ int, n *yaml.Node) {
			s.Mix = append(s.Mix, d.weighted(n))
		})),
		required("arrival", d.arrival(&s.Arrival)),
		optional("through", d.choice(&s.Through, "pod", ThroughService)),
		optional("start", d.span(&s.Start)),
		optional("for", d.positive(&s.For)))
	if s.Through == "pod" {
		s.Through = "" // as where nothing is said
	}
	if n.Kind == yaml.MappingNode && (len(s.Mix) == 0 || (single && len(s.Mix) > 1)) {
		d.reportf(n, "a stream needs either session or mix")
	}
	return s
}

func (d *decoder) weighted(n *yaml.Node) Weighted {
	w := Weighted{Weight: 1}
	d.object(n, "a weighted session",
		optional("weight", d.count(&w.Weight, 1, 1_000_000)),
		required("session", func(n *yaml.Node) { w.Session = d.session(n) }))
	return w
}

func (d *decoder) session(n *yaml.Node) Session {
	s, before := defaultSession(), len(d.problems)
	pace, length := s.Pace, Distribution{}
	ok := d.object(n, "a session",
		required("kind", d.choice(&s.Kind, SessionKinds()...)),
		required("behaviour", d.choice(&s.Behaviour, behaviourNames("")...)),
		optional("length", d.distribution(&length)),
		optional("pace", d.distribution(&pace)),
		optional("keepalive", d.positive(&s.Keepalive)),
		optional("lineBytes", d.count(&s.LineBytes, 16, 4096)),
		optional("rate", scalar(d, &s.Rate, ParseByteRate)),
		optional("size", scalar(d, &s.Size, ParseSize)),
		optional("direction", d.choice(&s.Direction, "up", "down")),
		optional("command", d.text(&s.Command)),
		optional("exit", d.count(&s.Exit, 0, 255)),
		optional("channels", d.count(&s.Channels, 1, 1000)),
		optional("script", d.list("script line", func(_ int, n *yaml.Node) {
			s.Script = append(s.Script, d.scriptLine(n))
		})),
		optional("protocol", d.choice(&s.Protocol, "websocket", "spdy")),
		optional("timeout", d.positive(&s.Timeout)))
	s.Pace, s.Length = pace, length
	if ok && len(d.problems) == before {
		s = d.behave(n, s)
	}
	return s
}

func behaviourNames(kind string) []string {
	var names []string
	for _, b := range Behaviours() {
		if kind == "" || slices.Contains(b.Kinds, kind) {
			names = append(names, b.Name)
		}
	}
	return names
}

// behave holds a session against its row of the table and clears what the row
// does not have.
func (d *decoder) behave(n *yaml.Node, s Session) Session {
	rows := Behaviours()
	row := rows[slices.IndexFunc(rows, func(b Behaviour) bool { return b.Name == s.Behaviour })]
	if !slices.Contains(row.Kinds, s.Kind) {
		d.report(n, Problem{Message: fmt.Sprintf("%s sessions have no behaviour %q", s.Kind, s.Behaviour), Allowed: behaviourNames(s.Kind)})
		return s
	}
	given := mappingKeys(n)
	for _, need := range row.Needs {
		if !slices.Contains(given, need) {
			d.reportf(n, "behaviour %q needs field %q", row.Name, need)
		}
	}
	common := []string{"kind", "behaviour", "timeout", "keepalive"}
	if s.Kind == KubeExec {
		common = append(common, "protocol")
	}
	for _, key := range given {
		if !slices.Contains(row.Has, key) && !slices.Contains(common, key) {
			d.report(n, Problem{Message: fmt.Sprintf("behaviour %q has no field %q", row.Name, key), Allowed: append(common, row.Has...)})
		}
	}
	if d.opts.Sessions != nil {
		if err := d.opts.Sessions(s); err != nil {
			d.reportf(n, "%v", err)
		}
	}
	return s.only(row.Has)
}

// only keeps the fields of a behaviour, so that defaults of others do not show.
func (s Session) only(has []string) Session {
	out := Session{Kind: s.Kind, Behaviour: s.Behaviour, Keepalive: s.Keepalive, Timeout: s.Timeout}
	if s.Protocol == "spdy" {
		out.Protocol = s.Protocol
	}
	fields := map[string]func(){
		"length":    func() { out.Length = s.Length },
		"pace":      func() { out.Pace = s.Pace },
		"lineBytes": func() { out.LineBytes = s.LineBytes },
		"rate":      func() { out.Rate = s.Rate },
		"size":      func() { out.Size = s.Size },
		"direction": func() { out.Direction = s.Direction },
		"command":   func() { out.Command = s.Command },
		"exit":      func() { out.Exit = s.Exit },
		"channels":  func() { out.Channels = s.Channels },
		"script":    func() { out.Script = s.Script },
	}
	for _, name := range has {
		fields[name]()
	}
	return out
}

func mappingKeys(n *yaml.Node) []string {
	var keys []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		keys = append(keys, n.Content[i].Value)
	}
	return keys
}

func (d *decoder) scriptLine(n *yaml.Node) Line {
	var l Line
	ok := d.object(n, "a script line",
		optional("send", d.text(&l.Send)),
		optional("expect", scalar(d, &l.Expect, func(s string) (string, error) {
			if _, err := regexp.Compile(s); err != nil {
				return "", fmt.Errorf("%q is not a regular expression: %s", s, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
			}
			return s, nil
		})),
		optional("wait", d.positive(&l.Wait)))
	if ok && len(mappingKeys(n)) != 1 {
		d.reportf(n, "a script line is exactly one of send, expect, wait")
	}
	return l
}

func (d *decoder) arrival(a *Arrival) read {
	return func(n *yaml.Node) {
		ok := d.object(n, "arrival",
			optional("open", func(n *yaml.Node) { a.Open = d.open(n) }),
			optional("closed", func(n *yaml.Node) { a.Closed = d.closed(n) }),
			optional("maxHeld", d.count(&a.MaxHeld, 1, 1_000_000)))
		switch {
		case ok && (a.Open == nil) == (a.Closed == nil):
			d.reportf(n, "arrival is either open or closed")
		case a.Closed != nil && a.MaxHeld > 0:
			d.reportf(n, "maxHeld belongs to the open model; the closed one has held")
		}
	}
}

func (d *decoder) closed(n *yaml.Node) *Closed {
	var c Closed
	d.object(n, "the closed model",
		required("held", d.count(&c.Held, 1, 1_000_000)),
		optional("over", d.span(&c.Over)),
		optional("think", d.pause(&c.Think)))
	return &c
}

func (d *decoder) open(n *yaml.Node) *Open {
	o, before := Open{Distribution: "poisson"}, len(d.problems)
	ok := d.object(n, "the open model",
		optional("rate", func(n *yaml.Node) {
			var l Leg
			scalar(d, &l.From, ParseRate)(n)
			l.To = l.From
			o.Legs = append(o.Legs, l)
		}),
		optional("ramp", func(n *yaml.Node) { o.Legs = append(o.Legs, d.ramp(n)...) }),
		optional("steps", d.list("step", func(_ int, n *yaml.Node) { o.Legs = append(o.Legs, d.step(n)) })),
		optional("distribution", d.choice(&o.Distribution, "constant", "poisson")))
	if !ok {
		return &o
	}
	how := 0
	for _, key := range mappingKeys(n) {
		if key != "distribution" {
			how++
		}
	}
	if how != 1 {
		d.reportf(n, "the open model is exactly one of rate, ramp, steps")
	}
	for i, l := range o.Legs {
		if l.For == 0 && i < len(o.Legs)-1 {
			d.reportf(n, "step %d needs for: only the last may have no end", i+1)
		}
	}
	if len(d.problems) == before && o.peak() == 0 {
		d.reportf(n, "no session would ever begin: every rate is 0")
	}
	return &o
}

// ramp is a leg that goes from one rate to another and then stays there.
func (d *decoder) ramp(n *yaml.Node) []Leg {
	var l Leg
	d.object(n, "a ramp",
		optional("from", scalar(d, &l.From, ParseRate)),
		required("to", scalar(d, &l.To, ParseRate)),
		required("over", d.positive(&l.For)))
	return []Leg{l, {From: l.To, To: l.To}}
}

func (d *decoder) step(n *yaml.Node) Leg {
	var l Leg
	d.object(n, "a step",
		required("rate", scalar(d, &l.From, ParseRate)),
		optional("for", d.positive(&l.For)))
	l.To = l.From
	return l
}

func (o *Open) peak() float64 {
	var most float64
	for _, l := range o.Legs {
		most = max(most, l.From, l.To)
	}
	return most
}
