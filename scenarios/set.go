package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// topLevel are the keys that a --set path may begin with; others mean spec.
var topLevel = []string{"apiVersion", "kind", "metadata", "spec"}

var pathPart = regexp.MustCompile(`^([A-Za-z0-9_./-]+?)?(?:\[([A-Za-z0-9_-]+)\])?$`)

// override applies the --set options to the tree. What they bring in reports
// its problems under their own name instead of a line.
func (d *decoder) override(root *yaml.Node) {
	for _, set := range d.opts.Set {
		path, value, ok := strings.Cut(set, "=")
		if !ok || path == "" {
			d.setProblem(set, "is not path=value")
			continue
		}
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(value), &doc); err != nil {
			d.setProblem(set, syntaxProblem("", err).Message)
			continue
		}
		leaf := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
		if len(doc.Content) > 0 {
			leaf = doc.Content[0]
		}
		d.mark(leaf, "--set "+set)
		if err := d.put(root, splitPath(path), leaf, "--set "+set); err != nil {
			d.setProblem(set, err.Error())
		}
	}
}

func (d *decoder) setProblem(set, message string) {
	d.problems = append(d.problems, Problem{File: "--set " + set, Message: message})
}

func (d *decoder) mark(n *yaml.Node, from string) {
	d.origin[n] = from
	for _, c := range n.Content {
		d.mark(c, from)
	}
}

// splitPath cuts a.b[c].d into a, b, [c], d. A backslash keeps a dot in a key.
func splitPath(path string) []string {
	const dot = "\x00"
	var parts []string
	for _, p := range strings.Split(strings.ReplaceAll(path, `\.`, dot), ".") {
		p = strings.ReplaceAll(p, dot, ".")
		if m := pathPart.FindStringSubmatch(p); m != nil && m[2] != "" {
			if m[1] != "" {
				parts = append(parts, m[1])
			}
			parts = append(parts, "["+m[2]+"]")
			continue
		}
		parts = append(parts, p)
	}
	if !slices.Contains(topLevel, parts[0]) {
		parts = append([]string{"spec"}, parts...)
	}
	return parts
}

// put walks down from n, makes mappings on the way and puts leaf at the end.
func (d *decoder) put(n *yaml.Node, path []string, leaf *yaml.Node, from string) error {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if len(path) == 0 {
		*n = *leaf
		d.origin[n] = from
		return nil
	}
	switch n.Kind {
	case yaml.SequenceNode:
		item, err := pick(n, path[0])
		if err != nil {
			return err
		}
		return d.put(item, path[1:], leaf, from)
	case yaml.MappingNode:
		if strings.HasPrefix(path[0], "[") {
			return fmt.Errorf("there is no list before %s", path[0])
		}
		return d.put(d.child(n, path[0], from), path[1:], leaf, from)
	}
	return fmt.Errorf("there is nothing below %q for %q", n.Value, path[0])
}

// child finds a key or makes it.
func (d *decoder) child(n *yaml.Node, key, from string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	k := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}
	v := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	d.origin[k], d.origin[v] = from, from
	n.Content = append(n.Content, k, v)
	return v
}

// pick finds an item of a list by its number or by its field name.
func pick(n *yaml.Node, part string) (*yaml.Node, error) {
	want := strings.Trim(part, "[]")
	if i, err := strconv.Atoi(want); err == nil {
		if i < 0 || i >= len(n.Content) {
			return nil, fmt.Errorf("there is no [%d]: the list has %d items", i, len(n.Content))
		}
		return n.Content[i], nil
	}
	var names []string
	for _, item := range n.Content {
		for i := 0; i+1 < len(item.Content); i += 2 {
			if item.Content[i].Value == "name" {
				if item.Content[i+1].Value == want {
					return item, nil
				}
				names = append(names, item.Content[i+1].Value)
			}
		}
	}
	err := fmt.Sprintf("there is no item named %q", want)
	if near := nearest(want, names); near != "" {
		err += fmt.Sprintf("; did you mean %q?", near)
	}
	if len(names) > 0 {
		err += " (allowed: " + strings.Join(names, ", ") + ")"
	}
	return nil, fmt.Errorf("%s", err)
}
