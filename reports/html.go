package reports

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"shakedown.dev/shakedown/checks"
)

//go:embed assets
var assets embed.FS

// HTML writes one page without any outside reference: uPlot (MIT, assets/uPlot.LICENSE), styles and
// data are inside, and its content security policy forbids everything else. Tables are plain HTML, so
// that the page tells all but the picture without JavaScript.
func HTML(w io.Writer, r Report) error {
	page, err := newPage(r)
	if err != nil {
		return err
	}
	t, err := template.New("page.tmpl").Funcs(template.FuncMap{
		"mark": mark, "at": at, "length": length, "percent": percent, "compact": compact, "breaking": checks.BreakingPoint, "group": group, "window": window, "cost": lossWords, "least": leastWords, "healed": healedWords, "unprefixed": strings.TrimPrefix,
	}).ParseFS(assets, "assets/page.tmpl")
	if err != nil {
		return fmt.Errorf("parse the page: %w", err)
	}
	if err := t.Execute(w, page); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// page is what the template shows.
type page struct {
	Report
	SUT, Where, Command string
	License             string
	Style               template.CSS
	Chart, Script       template.JS
	Tiles               []tile
	Sessions            []count
	Recordings          []count
	Capacity            []capacityRow
	Gates               []gateRow
	Latency, Opening    []latencyRow
	ByPhase             []phaseRow
	Metrics             []metricRow
	Recovery, Sample    string
	Invalid             int // conditions of validity that do not hold
	Picture             string
}

// tile is one of the numbers to see first.
type tile struct {
	Name, Value, Note string
	Bad               bool
}

type capacityRow struct {
	Name string
	checks.ComponentCapacity
}

type gateRow struct {
	Name, Expr, Value, Margin, Detail string
	Outcome                           checks.Outcome
}

type latencyRow struct {
	Kind, Phase string
	checks.LatencyRow
}

type phaseRow struct {
	Name   string
	Counts []count
}

func newPage(r Report) (page, error) {
	p := page{Report: r, SUT: r.sutLine(), Where: r.where(), Command: r.command(), Recovery: recoveryWords(r.Verdict.Measures.Recovery),
		Sample: sampleWords(r.Verdict.Measures), Metrics: r.metricRows()}
	files := map[string]string{}
	for _, name := range []string{"page.css", "page.js", "uPlot.min.css", "uPlot.iife.min.js", "uPlot.LICENSE"} {
		b, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return p, fmt.Errorf("read the page's parts: %w", err)
		}
		files[name] = string(b)
	}
	// Our own embedded files, never anything from a run.
	p.Style = template.CSS(files["uPlot.min.css"] + files["page.css"])
	p.Chart, p.Script = template.JS(files["uPlot.iife.min.js"]), template.JS(files["page.js"])
	p.License = files["uPlot.LICENSE"]
	p.tables()
	p.Tiles = tiles(r)
	p.Picture = picture(r)
	return p, nil
}

func (p *page) tables() {
	m := p.Verdict.Measures
	p.Sessions, p.Recordings = sessionCounts(m.Sessions), recordingCounts(m.Recordings)
	for _, c := range p.components() {
		p.Capacity = append(p.Capacity, capacityRow{c, m.Capacity[c]})
	}
	for _, g := range p.Verdict.Gates {
		value, margin := valueWords(g)
		p.Gates = append(p.Gates, gateRow{g.Name, g.Expr, value, margin, g.Detail, g.Outcome})
	}
	p.Latency = p.latencyRows(m.Latency, append([]string{checks.WholeRun}, p.Phases...))
	p.Opening = p.latencyRows(m.Opening, openingSteps())
	for _, name := range p.Phases {
		if s, ok := m.ByPhase[name]; ok {
			p.ByPhase = append(p.ByPhase, phaseRow{name, sessionCounts(s)})
		}
	}
	for _, v := range p.Verdict.Validity {
		if !v.OK {
			p.Invalid++
		}
	}
}

// openingSteps are history's phases of opening, in the order they happen.
func openingSteps() []string {
	return []string{"resolve", "connect", "tls", "ssh-proxy", "route", "ssh-node", "shell", "upgrade", "stream"}
}

func (p *page) latencyRows(table map[string]map[string]checks.LatencyRow, order []string) []latencyRow {
	var rows []latencyRow
	for _, kind := range sorted(table) {
		for _, phase := range order {
			if row, ok := table[kind][phase]; ok {
				rows = append(rows, latencyRow{kind, phase, row})
			}
		}
	}
	return rows
}
