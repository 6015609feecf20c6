package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder walks the YAML tree beside the Go types, so that every complaint can
// name a line. It gathers all of them.
type decoder struct {
	path     string
	errs     []error
	warnings []string
	unknown  []string
}

func (d *decoder) fail(n *yaml.Node, format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf("%s:%d: %s", d.path, n.Line, fmt.Sprintf(format, args...)))
}

func (d *decoder) warn(list *[]string, n *yaml.Node, format string, args ...any) {
	*list = append(*list, fmt.Sprintf("%s:%d: %s", d.path, n.Line, fmt.Sprintf(format, args...)))
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, where string) {
	if n.Kind != yaml.MappingNode {
		if n.Tag != "!!null" {
			d.fail(n, "%s must be a mapping, not %s", name(where), kind(n))
		}
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(where+"."+key.Value, ".")
		if line, twice := seen[key.Value]; twice {
			d.fail(key, "%s is given twice, first in line %d", at, line)
			continue
		}
		seen[key.Value] = key.Line
		field, tag, ok := fieldFor(v, key.Value)
		if !ok {
			d.unknownKey(key, v, at)
			continue
		}
		d.value(resolve(value), field, at, tag)
	}
}

func (d *decoder) unknownKey(key *yaml.Node, v reflect.Value, at string) {
	if v.Type() == reflect.TypeFor[OtherService]() {
		return // a service that is not there: its own warning says so
	}
	if v.Type() == reflect.TypeFor[Storage]() { // the real program's backends take any key
		d.warn(&d.warnings, key, "%s has no effect in the stand-in", at)
		return
	}
	d.warn(&d.unknown, key, "unknown key %s, allowed here: %s", at, strings.Join(keys(v.Type()), ", "))
}

func (d *decoder) value(n *yaml.Node, v reflect.Value, at string, tag reflect.StructTag) {
	if n.Tag == "!!null" {
		return
	}
	switch p := v.Addr().Interface().(type) {
	case *Ignored:
		d.warn(&d.warnings, n, "%s has no effect in the stand-in", at)
	case *Flag:
		d.flag(n, p, at)
	case *time.Duration:
		d.duration(n, p, at)
	case *[]StaticToken:
		d.tokens(n, p, at)
	case *[]string:
		d.strings(n, p, at)
	case *map[string]string:
		d.mapping(n, p, at)
	case **bool:
		var b bool
		d.boolean(n, &b, at)
		*p = &b
	default:
		d.plain(n, v, at, tag)
	}
}

func (d *decoder) plain(n *yaml.Node, v reflect.Value, at string, tag reflect.StructTag) {
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, at)
	case reflect.Slice:
		d.list(n, v, at, tag)
	case reflect.String:
		d.text(n, v, at, tag)
	case reflect.Bool:
		d.boolean(n, v.Addr().Interface().(*bool), at)
	case reflect.Int, reflect.Int64:
		i, err := strconv.ParseInt(n.Value, 10, 64)
		if n.Kind != yaml.ScalarNode || err != nil {
			d.fail(n, "%s must be a whole number, not %s", at, shown(n))
		}
		v.SetInt(i)
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil {
			d.fail(n, "%s must be a number, not %s", at, shown(n))
		}
		v.SetFloat(f)
	}
}

func (d *decoder) text(n *yaml.Node, v reflect.Value, at string, tag reflect.StructTag) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, "%s must be text, not %s", at, kind(n))
		return
	}
	value := n.Value // also where YAML sees a switch, as in second_factor: off
	if allowed := tag.Get("allowed"); allowed != "" && value != "" && !slices.Contains(strings.Fields(allowed), value) {
		d.fail(n, "%s must be one of %s, not %q", at, strings.Join(strings.Fields(allowed), ", "), value)
		return
	}
	v.SetString(value)
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, at string, tag reflect.StructTag) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, "%s must be a list, not %s", at, kind(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(resolve(item), out.Index(i), fmt.Sprintf("%s[%d]", at, i), tag)
	}
	v.Set(out)
}

func (d *decoder) strings(n *yaml.Node, p *[]string, at string) {
	switch n.Kind {
	case yaml.ScalarNode:
		*p = []string{n.Value}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				d.fail(item, "%s must be a list of texts, not of %s", at, kind(item))
				continue
			}
			*p = append(*p, item.Value)
		}
	default:
		d.fail(n, "%s must be a text or a list of texts, not %s", at, kind(n))
	}
}

func (d *decoder) mapping(n *yaml.Node, p *map[string]string, at string) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, "%s must be a mapping of texts, not %s", at, kind(n))
		return
	}
	*p = map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i+1].Kind != yaml.ScalarNode {
			d.fail(n.Content[i+1], "%s.%s must be text, not %s", at, n.Content[i].Value, kind(n.Content[i+1]))
			continue
		}
		(*p)[n.Content[i].Value] = n.Content[i+1].Value
	}
}

func (d *decoder) tokens(n *yaml.Node, p *[]StaticToken, at string) {
	var specs []string
	d.strings(n, &specs, at)
	for i, spec := range specs {
		token, err := parseStaticToken(spec)
		if err != nil {
			d.fail(n, "%s[%d]: %v", at, i, err)
			continue
		}
		*p = append(*p, token)
	}
}

func (d *decoder) flag(n *yaml.Node, p *Flag, at string) {
	var b bool
	if d.boolean(n, &b, at) {
		*p = map[bool]Flag{true: On, false: Off}[b]
	}
}

func (d *decoder) boolean(n *yaml.Node, p *bool, at string) bool {
	if n.Kind == yaml.ScalarNode {
		switch strings.ToLower(n.Value) {
		case "true", "yes", "on", "1", "y":
			*p = true
			return true
		case "false", "no", "off", "0", "n":
			return true
		}
	}
	d.fail(n, "%s must be one of yes, no, true, false, on, off, not %s", at, shown(n))
	return false
}

func (d *decoder) duration(n *yaml.Node, p *time.Duration, at string) {
	value := n.Value
	if _, err := strconv.Atoi(value); err == nil && value != "0" {
		value += "ns" // as yaml.v2 reads a bare number into a duration
	}
	parsed, err := time.ParseDuration(value)
	if value == "never" {
		parsed, err = 0, nil
	}
	if n.Kind != yaml.ScalarNode || err != nil {
		d.fail(n, "%s must be a duration such as 30s, 5m or 1h, not %s", at, shown(n))
		return
	}
	*p = parsed
}

func (d *decoder) err() error { return errors.Join(d.errs...) }

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func fieldFor(v reflect.Value, key string) (reflect.Value, reflect.StructTag, bool) {
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag; tag.Get("yaml") == key && key != "-" {
			return v.Field(i), tag, true
		}
	}
	return reflect.Value{}, "", false
}

func keys(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "-" {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

func name(where string) string {
	if where == "" {
		return "the file"
	}
	return where
}

func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "the text " + strconv.Quote(n.Value)
}

func shown(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return strconv.Quote(n.Value)
	}
	return kind(n)
}
