package scenarios

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// distribution reads a duration (that value always) or a mapping with one shape.
func (d *decoder) distribution(into *Distribution) read {
	return func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode {
			var s Span
			if d.positive(&s)(n); s > 0 {
				*into = Always(s.Duration())
			}
			return
		}
		before := len(d.problems)
		var out Distribution
		ok := d.object(n, "a distribution",
			optional("constant", func(n *yaml.Node) {
				out.Shape = Constant
				d.positive(&out.Mean)(n)
			}),
			optional("uniform", d.uniform(&out)),
			optional("exponential", d.exponential(&out)),
			optional("lognormal", d.lognormal(&out)),
			optional("file", d.empirical(&out)))
		if ok && len(n.Content) != 2 {
			d.reportf(n, "a distribution is exactly one of constant, uniform, exponential, lognormal, file")
		}
		if len(d.problems) == before {
			*into = out
		}
	}
}

// pause is a distribution, or no time at all.
func (d *decoder) pause(into *Distribution) read {
	return func(n *yaml.Node) {
		if v, err := ParseDuration(n.Value); n.Kind != yaml.ScalarNode || err != nil || v != 0 {
			d.distribution(into)(n)
		}
	}
}

func (d *decoder) uniform(out *Distribution) read {
	return func(n *yaml.Node) {
		out.Shape = Uniform
		ok := d.object(n, "uniform", required("min", d.span(&out.Min)), required("max", d.positive(&out.Max)))
		d.ordered(n, ok, out)
	}
}

func (d *decoder) exponential(out *Distribution) read {
	return func(n *yaml.Node) {
		out.Shape = Exponential
		ok := d.object(n, "exponential",
			required("mean", d.positive(&out.Mean)),
			optional("min", d.span(&out.Min)), optional("max", d.positive(&out.Max)))
		d.ordered(n, ok, out)
	}
}

// lognormal takes the spread as sigma or as the 95th percentile, which people know.
func (d *decoder) lognormal(out *Distribution) read {
	return func(n *yaml.Node) {
		var p95 Span
		var sigma string
		out.Shape = Lognormal
		ok := d.object(n, "lognormal",
			required("median", d.positive(&out.Mean)),
			optional("p95", d.positive(&p95)),
			optional("sigma", d.text(&sigma)),
			optional("min", d.span(&out.Min)), optional("max", d.positive(&out.Max)))
		if !ok {
			return
		}
		switch {
		case (p95 == 0) == (sigma == ""):
			d.reportf(n, "lognormal needs either p95 or sigma")
		case p95 > 0 && p95 <= out.Mean:
			d.reportf(n, "p95 must be longer than the median")
		case p95 > 0:
			out.Sigma = math.Log(float64(p95)/float64(out.Mean)) / 1.6448536269514722 // z of 0.95
		default:
			if _, err := fmt.Sscan(sigma, &out.Sigma); err != nil || !(out.Sigma > 0 && out.Sigma < 10) {
				d.reportf(n, "sigma is a number above 0, such as 0.8")
			}
		}
		d.ordered(n, ok, out)
	}
}

func (d *decoder) ordered(n *yaml.Node, ok bool, out *Distribution) {
	if ok && out.Max > 0 && out.Min > out.Max {
		d.reportf(n, "min %s is longer than max %s", out.Min, out.Max)
	}
}

// empirical reads a file with one duration a line; # begins a comment.
func (d *decoder) empirical(out *Distribution) read {
	return func(n *yaml.Node) {
		out.Shape = Empirical
		if n.Kind == yaml.ScalarNode {
			d.text(&out.File)(n)
		} else {
			d.object(n, "file", required("path", d.text(&out.File)), optional("max", d.positive(&out.Max)))
		}
		if out.File == "" {
			return
		}
		text, err := d.readFile(out.File)
		if err != nil {
			d.reportf(n, "%v", err)
			return
		}
		for i, line := range strings.Split(string(text), "\n") {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			v, err := ParseDuration(line)
			if err != nil {
				d.reportf(n, "%s:%d: %v", out.File, i+1, err)
				return
			}
			out.Values = append(out.Values, Span(v))
		}
		if len(out.Values) == 0 {
			d.reportf(n, "%s has no durations in it", out.File)
		}
		slices.Sort(out.Values)
	}
}

func (d *decoder) readFile(name string) ([]byte, error) {
	if d.opts.Files == nil {
		return nil, fmt.Errorf("%s: files cannot be read here", name)
	}
	if !fs.ValidPath(name) {
		return nil, fmt.Errorf("%q is not a path below the scenario's own folder", name)
	}
	return fs.ReadFile(d.opts.Files, name)
}
