package reports

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"shakedown.dev/shakedown/checks/compare"
)

// ComparisonReporter writes a comparison in one format.
type ComparisonReporter func(io.Writer, compare.Result) error

// ComparisonByName finds a format of comparisons: text, markdown or json.
func ComparisonByName(name string) (ComparisonReporter, error) {
	switch name {
	case "text":
		return ComparisonText, nil
	case "markdown":
		return ComparisonMarkdown, nil
	case "json":
		return ComparisonJSON, nil
	}
	return nil, fmt.Errorf("comparison format %q: there are text, markdown, json", name)
}

// ComparisonJSON writes the comparison as it is.
func ComparisonJSON(w io.Writer, r compare.Result) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// ComparisonText writes a table of at most 80 columns.
func ComparisonText(w io.Writer, r compare.Result) error {
	t := &text{}
	t.line("A: %s", sideWords(r.A))
	t.line("B: %s", sideWords(r.B))
	for _, left := range append(r.A.LeftOut, r.B.LeftOut...) {
		t.wrapped("  left out: ", "    ", left)
	}
	for _, warning := range r.Warnings {
		t.wrapped("  careful: ", "    ", warning)
	}
	t.line("")
	t.line("%-26s %7s %7s %20s  %s", "median of", "A", "B", "B − A (95 %)", "change")
	for _, x := range r.Rows {
		t.line("%-26s %7s %7s %20s  %s", short(strings.TrimSpace(x.Measure+" "+unit(x)), 26), compact(x.MedianA), compact(x.MedianB), interval(x), t.change(x))
	}
	t.line("")
	t.wrapped("", "", conclusion(r))
	_, err := w.Write(t.b.Bytes())
	return err
}

// change is short enough for the last column.
func (t *text) change(x compare.Row) string {
	switch x.Change {
	case compare.NotShown:
		return "none shown"
	case compare.Same:
		return "same"
	case compare.TooFew:
		return "too few runs"
	case compare.Different:
		return fmt.Sprintf("CHANGED p=%.1g", *x.P)
	}
	return fmt.Sprintf("%s p=%.1g", strings.ToUpper(string(x.Change)), *x.P)
}

// ComparisonMarkdown writes a table for a CI step's summary or a pull request.
func ComparisonMarkdown(w io.Writer, r compare.Result) error {
	m := &markdown{}
	m.line("%s", safe(conclusion(r)))
	m.line("")
	m.line("- A: %s", safe(sideWords(r.A)))
	m.line("- B: %s", safe(sideWords(r.B)))
	for _, left := range append(r.A.LeftOut, r.B.LeftOut...) {
		m.line("- left out: %s", safe(left))
	}
	for _, warning := range r.Warnings {
		m.line("- careful: %s", safe(warning))
	}
	m.table("Measure", "A", "B", "B − A (95 %)", "")
	for _, x := range r.Rows {
		m.row(safe(strings.TrimSpace(x.Measure+" "+unit(x))), compact(x.MedianA), compact(x.MedianB), interval(x), changeWords(x))
	}
	_, err := w.Write(m.b.Bytes())
	return err
}

func unit(x compare.Row) string {
	if x.Unit == "" {
		return ""
	}
	return "(" + x.Unit + ")"
}

func sideWords(s compare.Side) string {
	var words []string
	for _, v := range []string{"pass", "fail", "inconclusive", "error"} {
		if s.Verdicts[v] > 0 {
			words = append(words, fmt.Sprintf("%d %s", s.Verdicts[v], v))
		}
	}
	return fmt.Sprintf("%d runs that count (of all: %s)", s.Runs, strings.Join(words, ", "))
}

func interval(x compare.Row) string {
	d := signed(x.Diff)
	if x.Low == nil {
		return d
	}
	return fmt.Sprintf("%s (%s…%s)", d, compact(*x.Low), compact(*x.High))
}

func signed(v float64) string {
	if v > 0 {
		return "+" + compact(v)
	}
	return compact(v)
}

// compact has three significant figures, or all of an integer part.
func compact(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func changeWords(x compare.Row) string {
	if x.P == nil {
		return string(x.Change)
	}
	return fmt.Sprintf("%s (p=%.2g)", x.Change, *x.P)
}

func short(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func conclusion(r compare.Result) string {
	counts := map[compare.Change][]string{}
	for _, x := range r.Rows {
		counts[x.Change] = append(counts[x.Change], x.Measure)
	}
	var words []string
	for _, c := range []compare.Change{compare.Worse, compare.Better, compare.Different} {
		if n := len(counts[c]); n > 0 {
			words = append(words, fmt.Sprintf("%s in B: %s", c, strings.Join(counts[c], ", ")))
		}
	}
	if len(counts[compare.TooFew]) > 0 {
		words = append(words, fmt.Sprintf("not enough runs to judge %d of %d measures: %d that count are needed on each side", len(counts[compare.TooFew]), len(r.Rows), r.Needed))
	}
	if len(words) == 0 {
		words = []string{"no difference shown; one too small for so few runs may be there"}
	}
	s := strings.Join(words, "; ")
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
