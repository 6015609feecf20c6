package scenarios

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds what a file may unfold to, since aliases can multiply.
const maxNodes = 100_000

// decoder walks the YAML tree and collects problems; it never stops at one.
type decoder struct {
	file     string
	opts     Options
	origin   map[*yaml.Node]string // nodes that came from --set
	path     []string
	problems Problems
	seen     int
}

// read decodes one node into something; problems go to the decoder.
type read func(*yaml.Node)

// field is one allowed key of a mapping.
type field struct {
	name     string
	required bool
	read     read
}

func optional(name string, r read) field { return field{name: name, read: r} }
func required(name string, r read) field { return field{name: name, required: true, read: r} }

func (d *decoder) position(n *yaml.Node) Position { return Position{n.Line, n.Column, d.origin[n]} }

func (d *decoder) report(n *yaml.Node, p Problem) {
	p.Path = strings.Join(d.path, "")
	d.problems = append(d.problems, p.at(d.file, d.position(n)))
}

func (d *decoder) reportf(n *yaml.Node, format string, args ...any) {
	d.report(n, Problem{Message: fmt.Sprintf(format, args...)})
}

// inside runs f with the path longer by one part, such as ".name" or "[0]".
func (d *decoder) inside(part string, f func()) {
	if len(d.path) == 0 {
		part = strings.TrimPrefix(part, ".")
	}
	d.path = append(d.path, part)
	f()
	d.path = d.path[:len(d.path)-1]
}

// resolve follows an alias and counts the visit.
func (d *decoder) resolve(n *yaml.Node) *yaml.Node {
	d.seen++
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// object reads a mapping with exactly these fields and says whether it was one.
func (d *decoder) object(n *yaml.Node, what string, fields ...field) bool {
	n = d.resolve(n)
	if n.Kind != yaml.MappingNode {
		d.reportf(n, "%s is a mapping with fields, not %s", what, kindOf(n))
		return false
	}
	present := map[string]bool{}
	for i := 0; i+1 < len(n.Content) && d.seen < maxNodes; i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		f, known := findField(fields, key.Value)
		switch {
		case !known:
			d.unknownField(key, what, fields)
			continue
		case present[key.Value]:
			d.reportf(key, "field %q is there twice", key.Value)
			continue
		}
		present[key.Value] = true
		d.inside("."+key.Value, func() { d.value(value, f.read) })
	}
	if d.seen >= maxNodes && !d.saidTooLarge() {
		d.reportf(n, "%s", tooLarge)
	}
	for _, f := range fields {
		if f.required && !present[f.name] {
			d.reportf(n, "%s needs field %q", what, f.name)
		}
	}
	return true
}

const tooLarge = "the file unfolds to too many values"

func (d *decoder) saidTooLarge() bool {
	for _, p := range d.problems {
		if p.Message == tooLarge {
			return true
		}
	}
	return false
}

func findField(fields []field, name string) (field, bool) {
	for _, f := range fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

func (d *decoder) unknownField(key *yaml.Node, what string, fields []field) {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	d.report(key, Problem{
		Message: fmt.Sprintf("%s has no field %q", what, key.Value),
		Nearest: nearest(key.Value, names),
		Allowed: names,
	})
}

// value hands a node on, unless there is nothing in it.
func (d *decoder) value(n *yaml.Node, r read) {
	if n = d.resolve(n); n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		d.reportf(n, "has no value")
		return
	}
	r(n)
}

// list reads a sequence, item by item.
func (d *decoder) list(what string, item func(i int, n *yaml.Node)) read {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.reportf(n, "is a list of %s, not %s", what, kindOf(n))
			return
		}
		if len(n.Content) == 0 {
			d.reportf(n, "is empty: it needs at least one %s", what)
		}
		for i, c := range n.Content {
			if d.seen >= maxNodes {
				return
			}
			d.inside(fmt.Sprintf("[%d]", i), func() { d.value(c, func(n *yaml.Node) { item(i, n) }) })
		}
	}
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		return fmt.Sprintf("%q", n.Value)
	}
	return "nothing"
}
