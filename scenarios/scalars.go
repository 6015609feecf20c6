package scenarios

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scalar reads a single value through a parser whose error says what it should be.
func scalar[T any](d *decoder, into *T, parse func(string) (T, error)) read {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode {
			d.reportf(n, "is a single value, not %s", kindOf(n))
			return
		}
		v, err := parse(n.Value)
		if err != nil {
			d.reportf(n, "%v", err)
			return
		}
		*into = v
	}
}

func (d *decoder) text(into *string) read {
	return scalar(d, into, func(s string) (string, error) {
		if strings.TrimSpace(s) == "" {
			return "", fmt.Errorf("is empty")
		}
		return s, nil
	})
}

func (d *decoder) span(into *Span) read {
	return scalar(d, into, func(s string) (Span, error) {
		v, err := ParseDuration(s)
		return Span(v), err
	})
}

// positive is a span that may not be 0.
func (d *decoder) positive(into *Span) read {
	return scalar(d, into, func(s string) (Span, error) {
		v, err := ParseDuration(s)
		if err == nil && v == 0 {
			err = fmt.Errorf("must be longer than 0s")
		}
		return Span(v), err
	})
}

func (d *decoder) count(into *int, least, most int) read {
	return scalar(d, into, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		switch {
		case err != nil:
			return 0, fmt.Errorf("%q is not a whole number", s)
		case n < least:
			return 0, fmt.Errorf("%d is too small: at least %d", n, least)
		case most > 0 && n > most:
			return 0, fmt.Errorf("%d is too large: at most %d", n, most)
		}
		return n, nil
	})
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is not true or false", s)
}

// choice is one word of a list.
func (d *decoder) choice(into *string, words ...string) read {
	return func(n *yaml.Node) {
		var s string
		if d.text(&s)(n); s == "" {
			return
		}
		if !contains(words, s) {
			d.report(n, Problem{Message: fmt.Sprintf("%q is not one of the choices", s), Nearest: nearest(s, words), Allowed: words})
			return
		}
		*into = s
	}
}

func contains(words []string, s string) bool {
	for _, w := range words {
		if w == s {
			return true
		}
	}
	return false
}

var nameSyntax = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// name is a name that others refer to, in the syntax of Kubernetes' labels.
func (d *decoder) name(into *string) read {
	return scalar(d, into, func(s string) (string, error) {
		if !nameSyntax.MatchString(s) {
			return "", fmt.Errorf("%q is not a name: lower-case letters, digits and dashes, at most 63", s)
		}
		return s, nil
	})
}

// tree reads any mapping as plain Go values.
func (d *decoder) tree(into *map[string]any) read {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			d.reportf(n, "is a mapping, not %s", kindOf(n))
			return
		}
		if err := n.Decode(into); err != nil {
			d.reportf(n, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
			return
		}
		normal(*into)
		if _, err := json.Marshal(*into); err != nil {
			d.reportf(n, "cannot be written as JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
	}
}

// texts reads a list of texts, or one alone.
func (d *decoder) texts(into *[]string) read {
	return func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode {
			*into = make([]string, 1)
			d.text(&(*into)[0])(n)
			return
		}
		d.list("text", func(_ int, n *yaml.Node) {
			var s string
			d.text(&s)(n)
			*into = append(*into, s)
		})(n)
	}
}
