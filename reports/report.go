// Package reports tells what a run came to: on a terminal, to a CI server, as one page to send around.
// A report is made from the verdict and what judging kept beside it, never from a cluster, so that any
// old run can be reported again. Every format says in its first line what was tested, and that it was
// the stand-in where it was.
package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"shakedown.dev/shakedown/checks"
)

// Reporter writes a report in one format.
type Reporter func(io.Writer, Report) error

// Report is what there is to tell about one run.
type Report struct {
	Verdict checks.Verdict
	// Lost and LostRecordings are lists bounded by Limit; the totals say how many there are.
	Lost                []checks.LostSession
	LostTotal           int
	LostRecordings      []checks.LostRecording
	LostRecordingsTotal int
	Phases              []string         // in the order of the timeline
	Timeline            *checks.Timeline // nil: there is no history to draw from

	Folder string // where the run folder lies, as the reader would type it
	Page   string // where the HTML report lies; empty: not written
	Repeat string // the command that repeats the run; empty: made from the verdict
	Color  bool   // for text: the reader is a terminal
}

// Limit bounds the lists in a report: a page with more rows serves nobody, and verdict.json has the groups.
const Limit = checks.MaxListed

// New makes the report of a run that was measured and judged.
func New(m *checks.Measures, v checks.Verdict) Report {
	r := Report{Verdict: v, Phases: m.Phases()}
	r.Lost, r.LostTotal = m.LostSessions(Limit)
	r.LostRecordings, r.LostRecordingsTotal = m.LostRecordings(Limit)
	t := m.Timeline()
	r.Timeline = &t
	return r
}

// Format is a reporter with its name on the command line and its file in a run folder.
type Format struct {
	Name   string
	File   string
	Report Reporter
}

// Formats are all formats, in the order of the help text.
func Formats() []Format {
	return []Format{
		{"text", "report.txt", Text},
		{"json", checks.VerdictFile, JSON},
		{"junit", "junit.xml", JUnit},
		{"markdown", "summary.md", Markdown},
		{"html", "report.html", HTML},
		{"sonobuoy", "sonobuoy_results.yaml", Sonobuoy},
	}
}

// ByName finds a format; the error names those there are.
func ByName(name string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Format{}, fmt.Errorf("report format %q: there are %s", name, strings.Join(names, ", "))
}

// JSON writes verdict.json.
func JSON(w io.Writer, r Report) error {
	b, err := r.Verdict.JSON()
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// sutLine is the first line of every report.
func (r Report) sutLine() string {
	s := r.Verdict.SUT
	what := strings.TrimSpace(s.Chart + " " + s.From)
	if s.To != "" && s.To != s.From {
		what += " → " + s.To
	}
	if s.Standin {
		return "System under test: the STAND-IN, not Teleport (" + what + ")"
	}
	return "System under test: " + what
}

// command repeats the run with its seed.
func (r Report) command() string {
	if r.Repeat != "" {
		return r.Repeat
	}
	v := r.Verdict
	cmd := fmt.Sprintf("shakedown run %s --seed %d", v.Scenario, v.Seed)
	if v.Cluster.Provider != "" {
		cmd += " --cluster " + v.Cluster.Provider
	}
	return cmd
}

// components are the names of those whose capacity was measured, in order.
func (r Report) components() []string {
	var names []string
	for n := range r.Verdict.Measures.Capacity {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// where says on what the run was made, in a few words.
func (r Report) where() string {
	c := r.Verdict.Cluster
	var parts []string
	if c.Provider != "" {
		parts = append(parts, c.Provider)
	}
	if c.Version != "" {
		parts = append(parts, "Kubernetes "+strings.TrimPrefix(c.Version, "v"))
	}
	if n := len(c.Nodes); n > 0 {
		parts = append(parts, fmt.Sprintf("%d nodes", n))
	}
	if way := reaches[c.Reach]; way != "" {
		parts = append(parts, way)
	}
	return strings.Join(parts, ", ")
}

// reaches says how load got to pods, which is part of what its latencies are.
var reaches = map[string]string{
	"direct":       "load reaches pods directly",
	"gateway":      "load reaches pods through a gateway in the cluster, over one port-forward",
	"port-forward": "load reaches pods through the API server's port-forward",
}

// length gives seconds as a person says them.
func length(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}

func percent(share float64) string {
	switch {
	case share == 0:
		return "0 %"
	case share < 0.001:
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// at gives a moment of the run, or a dash.
func at(t *float64) string {
	if t == nil {
		return "–"
	}
	return fmt.Sprintf("%.1f s", *t)
}

// group sets a narrow space between thousands, from five digits on.
func group(n int) string {
	s := fmt.Sprint(n)
	if n < 10000 {
		return s
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}
