package scenarios

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Prometheus is one that already watches the system; it is asked when the sessions have ended.
type Prometheus struct {
	URL     string  `json:"url"` // reached from inside the cluster if its host ends with .svc or .cluster.local
	Queries []Query `json:"queries"`
}

// Query is one question to it, which gates call by its name: prometheus("NAME").
type Query struct {
	Name  string `json:"name"`
	Query string `json:"query"` // PromQL; $window is the window's length, such as 37s
	// During and After name a phase; neither: the whole load. The expression is evaluated at the window's end.
	During string `json:"during,omitempty"`
	After  string `json:"after,omitempty"`
	// Missing says what no data means: inconclusive or zero.
	Missing string `json:"missing"`
	// Plot has the report draw it over the whole run; it may then give several series.
	Plot bool `json:"plot,omitempty"`
	pos  Position
}

// The meanings of no data.
const (
	MissingInconclusive = "inconclusive"
	MissingZero         = "zero"
)

func (d *decoder) prometheus(p **Prometheus) read {
	return func(n *yaml.Node) {
		out := &Prometheus{}
		d.object(n, "prometheus",
			required("url", d.text(&out.URL)),
			required("queries", d.list("query", func(_ int, n *yaml.Node) {
				q := Query{Missing: MissingInconclusive, pos: d.position(n)}
				plot := ""
				d.object(n, "a query",
					required("name", d.name(&q.Name)),
					required("query", d.text(&q.Query)),
					optional("during", d.text(&q.During)),
					optional("after", d.text(&q.After)),
					optional("missing", d.choice(&q.Missing, MissingInconclusive, MissingZero)),
					optional("plot", d.choice(&plot, "true", "false")))
				q.Plot = plot == "true"
				out.Queries = append(out.Queries, q)
			})))
		if out.URL != "" && !strings.HasPrefix(out.URL, "http://") && !strings.HasPrefix(out.URL, "https://") {
			d.reportf(n, "prometheus: url %q begins with neither http:// nor https://", out.URL)
		}
		*p = out
	}
}

// queries checks that the phases exist, and that no name is used twice.
func (d *decoder) queries(s *Scenario) {
	if s.Prometheus == nil {
		return
	}
	entries, seen := s.Names().Entries, map[string]bool{}
	for _, q := range s.Prometheus.Queries {
		if seen[q.Name] {
			d.at(q.pos, Problem{Message: "query " + q.Name + " stands here twice"})
		}
		seen[q.Name] = true
		if q.During != "" && q.After != "" {
			d.at(q.pos, Problem{Message: "query " + q.Name + " has one of during and after, not both"})
		}
		for _, phase := range []string{q.During, q.After} {
			if phase != "" && !slices.Contains(entries, phase) {
				d.at(q.pos, Problem{Message: "query " + q.Name + ": unknown phase " + phase, Nearest: nearest(phase, entries), Allowed: entries})
			}
		}
	}
}
