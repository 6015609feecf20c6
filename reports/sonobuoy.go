package reports

import (
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"shakedown.dev/shakedown/checks"
)

// sonobuoyItem is a node of Sonobuoy's results, as a plugin with result-format manual gives them
// (sonobuoy.io/docs, "Plugin Results": name, status, meta, details, items).
type sonobuoyItem struct {
	Name    string            `json:"name"`
	Status  string            `json:"status"`
	Meta    map[string]string `json:"meta,omitempty"`
	Details map[string]string `json:"details,omitempty"`
	Items   []sonobuoyItem    `json:"items,omitempty"`
}

// Sonobuoy writes the results of a Sonobuoy plugin, in YAML. What is inconclusive has status unknown,
// which Sonobuoy does not count as passed.
func Sonobuoy(w io.Writer, r Report) error {
	v := r.Verdict
	root := sonobuoyItem{Name: "shakedown", Status: sonobuoyStatus(v.Verdict), Meta: map[string]string{"type": "summary"},
		Details: map[string]string{"systemUnderTest": r.sutLine(), "scenario": v.Scenario, "run": v.Run, "seed": fmt.Sprint(v.Seed),
			"reasons": strings.Join(v.Reasons, "\n"), "repeat": r.command()}}
	root.Items = append(root.Items, sonobuoyGroup("gates", sonobuoyGates(r)), sonobuoyGroup("validity", sonobuoyValidity(r)), sonobuoyGroup("checks", sonobuoyFindings(r)))
	out, err := yaml.Marshal(root)
	if err != nil {
		return fmt.Errorf("encode Sonobuoy results: %w", err)
	}
	if _, err := fmt.Fprintf(w, "# %s\n", r.sutLine()); err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

func sonobuoyStatus(o checks.Outcome) string {
	switch o {
	case checks.Pass:
		return "passed"
	case checks.Inconclusive:
		return "unknown"
	}
	return "failed"
}

// sonobuoyGroup takes the worst status of its items: failed, then unknown, then passed.
func sonobuoyGroup(name string, items []sonobuoyItem) sonobuoyItem {
	status := "passed"
	if len(items) == 0 {
		status = "unknown"
	}
	for _, i := range items {
		if i.Status == "failed" || i.Status == "unknown" && status == "passed" {
			status = i.Status
		}
	}
	return sonobuoyItem{Name: name, Status: status, Meta: map[string]string{"type": "group"}, Items: items}
}

func sonobuoyGates(r Report) (items []sonobuoyItem) {
	for _, g := range r.Verdict.Gates {
		value, margin := valueWords(g)
		items = append(items, sonobuoyItem{Name: g.Name, Status: sonobuoyStatus(g.Outcome),
			Details: map[string]string{"expr": g.Expr, "value": value, "margin": margin, "detail": g.Detail}})
	}
	return items
}

func sonobuoyValidity(r Report) (items []sonobuoyItem) {
	for _, v := range r.Verdict.Validity {
		status := "unknown"
		if v.OK {
			status = "passed"
		}
		items = append(items, sonobuoyItem{Name: v.Name, Status: status, Details: map[string]string{"detail": v.Detail}})
	}
	return items
}

func sonobuoyFindings(r Report) (items []sonobuoyItem) {
	for _, f := range r.Verdict.Findings {
		if f.Check != "gate" && f.Check != "validity" {
			items = append(items, sonobuoyItem{Name: f.Check, Status: sonobuoyStatus(f.Outcome), Details: map[string]string{"summary": f.Summary}})
		}
	}
	return items
}
