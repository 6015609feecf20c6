package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// param reads an argument of a type into do.Args or do.Selects.
func (d *decoder) param(do *Do, p Param) read {
	put := func(v any) { do.Args[p.Name] = v }
	switch p.Type {
	case TypePods, TypeNodes:
		return func(n *yaml.Node) { do.Selects[p.Name] = d.selection(n, p.Type) }
	case TypeDuration:
		return into(d, put, func(s string) (string, error) {
			v, err := ParseDuration(s)
			return FormatDuration(v), err
		})
	case TypeCount:
		return into(d, put, p.count)
	case TypeShare:
		return into(d, put, ParseShare)
	case TypeBool:
		return into(d, put, parseBool)
	case TypeSize:
		return into(d, put, ParseSize)
	case TypeByteRate:
		return into(d, put, ParseByteRate)
	case TypeChoice:
		return func(n *yaml.Node) {
			var s string
			if d.choice(&s, p.Allowed...)(n); s != "" {
				put(s)
			}
		}
	case TypeTexts:
		return func(n *yaml.Node) {
			var l []string
			d.texts(&l)(n)
			put(l)
		}
	case TypeTree:
		return func(n *yaml.Node) {
			m := map[string]any{}
			d.tree(&m)(n)
			put(m)
		}
	}
	return func(n *yaml.Node) { // TypeText, TypeEntry
		var s string
		d.text(&s)(n)
		put(s)
	}
}

// into is scalar for a value that is put rather than assigned.
func into[T any](d *decoder, put func(any), parse func(string) (T, error)) read {
	return func(n *yaml.Node) {
		before, v := len(d.problems), *new(T)
		if scalar(d, &v, parse)(n); len(d.problems) == before {
			put(v)
		}
	}
}

func (p Param) count(s string) (int, error) {
	n, err := strconv.Atoi(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a whole number", s)
	case float64(n) < p.Min:
		return 0, fmt.Errorf("%d is too small: at least %v", n, p.Min)
	case p.Max > 0 && float64(n) > p.Max:
		return 0, fmt.Errorf("%d is too large: at most %v", n, p.Max)
	}
	return n, nil
}

// selection reads whom a fault acts on; one that names nothing is an error.
func (d *decoder) selection(n *yaml.Node, kind ParamType) *Selection {
	s := &Selection{By: "random", pos: d.position(n)}
	amount := []field{
		optional("count", d.count(&s.Count, 1, 0)),
		optional("share", scalar(d, &s.Share, ParseShare)),
		optional("all", scalar(d, &s.All, parseBool)),
		optional("by", d.choice(&s.By, selectionOrders...)),
		optional("node", d.nodeSelection(s)),
	}
	if kind == TypePods {
		amount = append([]field{
			required("component", d.text(&s.Component)),
			optional("revision", d.choice(&s.Revision, "old", "new")),
			optional("ordinal", d.ordinal(&s.Ordinal)),
		}, amount...)
	}
	before := len(d.problems)
	if !d.object(n, "a "+string(kind), amount...) || len(d.problems) > before {
		return s
	}
	d.selectionShape(n, s, kind)
	return s
}

func (d *decoder) selectionShape(n *yaml.Node, s *Selection, kind ParamType) {
	if kind == TypeNodes && s.Node == nil {
		d.reportf(n, "selects nothing: say which nodes, such as node: {running: proxy} or node: {any: true}")
	}
	how := 0
	for _, key := range mappingKeys(n) {
		if key == "count" || key == "share" || key == "all" {
			how++
		}
	}
	switch {
	case how > 1:
		d.reportf(n, "is exactly one of count, share, all")
	case how == 0:
		s.Count = 1
	case s.Count == 0 && s.Share == 0 && !s.All:
		d.reportf(n, "selects nothing: a share of 0%% or all: false is nobody")
	}
}

func (d *decoder) ordinal(into **int) read {
	return func(n *yaml.Node) {
		*into = new(int)
		d.count(*into, 0, 0)(n)
	}
}

func (d *decoder) nodeSelection(s *Selection) read {
	return func(n *yaml.Node) {
		s.Node = &NodeSelection{}
		ok := d.object(n, "a node",
			optional("running", d.text(&s.Node.Running)),
			optional("ordinal", d.ordinal(&s.Node.Ordinal)),
			optional("name", d.text(&s.Node.Name)),
			optional("any", scalar(d, &s.Node.Any, parseBool)),
			optional("without", d.text(&s.Node.Without)))
		how := slices.DeleteFunc(mappingKeys(n), func(key string) bool { return key == "without" })
		if ok && len(how) != 1 {
			d.reportf(n, "a node is exactly one of running, ordinal, name, any")
		}
	}
}

// normal turns what YAML makes of a tree into what JSON can carry: keys are
// text, times stay as they were written.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = normal(v[k])
		}
		return v
	case map[any]any:
		m := map[string]any{}
		for k := range v {
			m[fmt.Sprint(k)] = normal(v[k])
		}
		return m
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case time.Time:
		return v.Format("2006-01-02")
	}
	return v
}
