package reports

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/mitchellh/go-wordwrap"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/gates"
)

const (
	columns    = 80
	maxReasons = 8 // in a text; the other formats have all
	maxGroups  = 6
)

// Text writes what a person reads in ten seconds, at most 80 columns wide.
func Text(w io.Writer, r Report) error {
	t := &text{color: r.Color}
	t.head(r)
	t.reasons(r)
	t.measures(r)
	t.losses(r)
	t.notes(r)
	t.gates(r)
	t.faults(r)
	t.validity(r)
	t.foot(r)
	_, err := w.Write(t.b.Bytes())
	return err
}

type text struct {
	b     bytes.Buffer
	color bool
}

// The colours of a terminal, by ECMA-48.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
)

func (t *text) paint(code, s string) string {
	if !t.color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (t *text) outcome(o checks.Outcome, s string) string {
	switch o {
	case checks.Pass:
		return t.paint(green, s)
	case checks.Inconclusive:
		return t.paint(yellow, s)
	}
	return t.paint(red, s)
}

// mark is the outcome in one sign.
func mark(o checks.Outcome) string {
	switch o {
	case checks.Pass:
		return "✓"
	case checks.Inconclusive:
		return "?"
	}
	return "✗"
}

func (t *text) line(format string, args ...any) { fmt.Fprintf(&t.b, format+"\n", args...) }

// label is how wide the words on the left are.
const label = 12

// item writes a label and a text beside it that is wrapped at the margin. The first n bytes of the
// text are a sign that is painted with the outcome.
func (t *text) item(name, body string) {
	t.wrapped(fmt.Sprintf("%-*s", label, name), strings.Repeat(" ", label), body)
}

func (t *text) wrapped(head, indent, body string) {
	room := uint(max(columns-len([]rune(indent)), 20))
	for i, l := range strings.Split(wordwrap.WrapString(strings.ReplaceAll(body, "\n", " "), room), "\n") {
		if i > 0 {
			head = indent
		}
		t.line("%s%s", head, l)
	}
}

func (t *text) head(r Report) {
	v := r.Verdict
	t.wrapped("", "", r.sutLine())
	word := strings.ToUpper(v.Verdict.String())
	t.line("%s  %s  %s", t.outcome(v.Verdict, t.paint(bold, mark(v.Verdict)+" "+word)), v.Scenario, t.paint(dim, "run "+v.Run))
	t.wrapped("", "", strings.TrimPrefix(fmt.Sprintf("%s, %s, seed %d", r.where(), length(v.Seconds), v.Seed), ", "))
	t.line("")
}

func (t *text) reasons(r Report) {
	for i, reason := range r.Verdict.Reasons {
		if i == maxReasons {
			t.line("  and %d more reasons", len(r.Verdict.Reasons)-i)
			break
		}
		t.wrapped("  - ", "    ", reason)
	}
	if len(r.Verdict.Unhealed) > 0 {
		t.wrapped("  ! ", "    ", "not healed: "+strings.Join(r.Verdict.Unhealed, ", "))
	}
	if len(r.Verdict.Reasons) > 0 {
		t.line("")
	}
}

func (t *text) measures(r Report) {
	m := r.Verdict.Measures
	name := "Capacity"
	for _, c := range r.components() {
		t.item(name, fmt.Sprintf("%-6s %s", c, capacityWords(m.Capacity[c])))
		name = ""
	}
	if len(m.Capacity) == 0 {
		t.item(name, "not measured")
	}
	t.item("Sessions", t.counts(sessionCounts(m.Sessions)))
	recordings := t.counts(recordingCounts(m.Recordings))
	if sample := sampleWords(m); sample != "" {
		recordings += " (" + sample + ")"
	}
	t.item("Recordings", recordings)
	if m.Goodput != nil {
		t.item("Goodput", fmt.Sprintf("%s of the sessions due opened (%.1f of %.1f a second)", percent(m.Goodput.Ratio), m.Goodput.Rate, m.Goodput.OfferedRate))
	}
	name = "Steps"
	for _, b := range checks.BreakingPoint(m.Steps) {
		t.item(name, b)
		name = ""
	}
	t.item("Recovery", recoveryWords(m.Recovery))
	if s := r.Verdict.ProxyStop; s != nil {
		t.item("Stopping", "a proxy: "+s.String())
	}
	t.line("")
}

// counts leaves out what is zero and not among the first two, so that what is not zero stands out.
func (t *text) counts(cs []count) string {
	var words []string
	for i, c := range cs {
		if i < 2 || c.N > 0 {
			words = append(words, fmt.Sprintf("%d %s", c.N, c.Word))
		}
	}
	if len(words) == 2 && cs[0].N > 0 {
		words = append(words, "nothing else")
	}
	return strings.Join(words, ", ")
}

func (t *text) losses(r Report) {
	for i, g := range r.Verdict.Losses {
		if i == maxGroups {
			t.line("%sand %d more causes, in the report", strings.Repeat(" ", label), len(r.Verdict.Losses)-i)
			break
		}
		name := ""
		if i == 0 {
			name = "Lost"
		}
		cause := g.Cause
		if !g.Found {
			cause = "UNATTRIBUTED: " + cause + ", such as " + strings.Join(g.Examples[:min(2, len(g.Examples))], ", ")
		}
		t.item(name, fmt.Sprintf("%d %s: %s", g.Count, g.Class, cause))
	}
	if len(r.Verdict.Losses) > 0 {
		t.line("")
	}
}

// notes are what passes and is worth telling.
func (t *text) notes(r Report) {
	name := "Noted"
	for _, f := range r.Verdict.Findings {
		if f.Note {
			t.item(name, f.Summary)
			name = ""
		}
	}
	if name == "" {
		t.line("")
	}
}

func (t *text) gates(r Report) {
	name := "Gates"
	if len(r.Verdict.Doubts) > 0 && len(r.Verdict.Gates) > 0 {
		t.item(name, "behind ? is what the numbers say, which are not to be trusted")
		name = ""
	}
	for _, g := range r.Verdict.Gates {
		sign, space := t.outcome(g.Outcome, mark(g.Outcome)), label+2
		if g.Numbers != checks.Inconclusive {
			sign, space = sign+mark(g.Numbers), label+3
		}
		t.wrapped(fmt.Sprintf("%-*s%s ", label, name, sign), strings.Repeat(" ", space), gateWords(g))
		name = ""
	}
	if len(r.Verdict.Gates) == 0 {
		t.item(name, "none")
	}
	t.line("")
}

// gateWords tells a gate in words; the expression is wanted where it did not hold.
func gateWords(g gates.Result) string {
	value, margin := valueWords(g)
	held := g.Outcome == checks.Pass || g.Numbers == checks.Pass
	body := g.Name + ": " + value
	if !held && g.Name != g.Expr {
		body = fmt.Sprintf("%s: %s is %s", g.Name, g.Expr, value)
	}
	if margin != "" {
		body += ", margin " + margin
	}
	if g.Detail != "" && g.Numbers == checks.Inconclusive {
		body += ": " + g.Detail
	}
	return body
}

func (t *text) faults(r Report) {
	for i, f := range r.Verdict.Faults {
		name := ""
		if i == 0 {
			name = "Faults"
		}
		t.item(name, fmt.Sprintf("%s: %s on %s, %s, %s", f.ID, f.Name, f.Target, window(f.Start, f.Over), proofWords(f)))
		t.item("", "cost: "+costWords(f.Cost))
	}
	for i, x := range r.Verdict.Rollouts {
		name := ""
		if i == 0 {
			name = "Rollouts"
		}
		t.item(name, fmt.Sprintf("%s: %s from %s, %s", x.ID, strings.TrimSpace(x.Verb+" "+versions(x)), window(&x.Start, x.End), x.Outcome))
		t.item("", "cost: "+costWords(x.Cost))
	}
	if len(r.Verdict.Faults)+len(r.Verdict.Rollouts) > 0 {
		t.line("")
	}
}

func (t *text) validity(r Report) {
	ok := 0
	for _, v := range r.Verdict.Validity {
		if v.OK {
			ok++
		}
	}
	body := fmt.Sprintf("%d of %d conditions hold", ok, len(r.Verdict.Validity))
	if len(r.Verdict.Skipped) > 0 {
		body += "; checks left out: " + strings.Join(r.Verdict.Skipped, ", ")
	}
	t.item("Validity", body)
}

func (t *text) foot(r Report) {
	if r.Page != "" {
		t.line("%-*s%s", label, "Report", r.Page)
	}
	if r.Folder != "" {
		t.line("%-*s%s", label, "Run folder", r.Folder)
	}
	t.line("%-*s%s", label, "Repeat", r.command())
}
