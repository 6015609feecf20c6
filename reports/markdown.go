package reports

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"shakedown.dev/shakedown/checks"
)

// Markdown writes a summary for a CI step, in GitHub's flavour.
func Markdown(w io.Writer, r Report) error {
	m := &markdown{}
	m.head(r)
	m.measures(r)
	m.losses(r)
	m.gates(r)
	m.faults(r)
	m.validity(r)
	m.line("")
	m.line("Repeat: `%s`", strings.ReplaceAll(r.command(), "`", "'"))
	_, err := w.Write(m.b.Bytes())
	return err
}

// maxRows bounds a table: a step summary may have 1 MiB, and nobody reads so much.
const maxRows = 50

type markdown struct{ b bytes.Buffer }

func (m *markdown) line(format string, args ...any) { fmt.Fprintf(&m.b, format+"\n", args...) }

// safe is a text that can neither end a table cell nor become markup.
func safe(s string) string {
	r := strings.NewReplacer("\\", "\\\\", "|", "\\|", "\n", " ", "\r", " ", "<", "&lt;", ">", "&gt;", "*", "\\*", "_", "\\_", "`", "\\`", "[", "\\[", "]", "\\]", "~", "\\~")
	return r.Replace(s)
}

// code is a text in backticks within a table cell.
func code(s string) string {
	return "`" + strings.NewReplacer("|", "\\|", "`", "'", "\n", " ").Replace(s) + "`"
}

func (m *markdown) row(cells ...string) { m.line("| %s |", strings.Join(cells, " | ")) }

func (m *markdown) table(heads ...string) {
	m.line("")
	m.row(heads...)
	m.line("|%s", strings.Repeat(" --- |", len(heads)))
}

func emoji(o checks.Outcome) string {
	switch o {
	case checks.Pass:
		return "✅"
	case checks.Fail:
		return "❌"
	case checks.Error:
		return "💥"
	}
	return "❔"
}

func (m *markdown) head(r Report) {
	v := r.Verdict
	m.line("%s", safe(r.sutLine()))
	m.line("")
	m.line("## %s %s: %s", emoji(v.Verdict), v.Verdict, safe(v.Scenario))
	m.line("")
	m.line("%s, %s, seed %d, run %s", safe(r.where()), length(v.Seconds), v.Seed, code(v.Run))
	if len(v.Reasons) > 0 {
		m.line("")
	}
	for _, reason := range v.Reasons {
		m.line("- %s", safe(reason))
	}
	if len(v.Unhealed) > 0 {
		m.line("- **not healed**: %s", safe(strings.Join(v.Unhealed, ", ")))
	}
}

func (m *markdown) measures(r Report) {
	v := r.Verdict.Measures
	m.table("Measured", "")
	for _, c := range r.components() {
		m.row("Capacity of "+safe(c), safe(capacityWords(v.Capacity[c])))
	}
	m.row("Sessions", countWords(sessionCounts(v.Sessions)))
	m.row("Recordings", countWords(recordingCounts(v.Recordings)))
	if sample := sampleWords(v); sample != "" {
		m.row("Sample", sample)
	}
	for _, b := range checks.BreakingPoint(v.Steps) {
		m.row("Steps", safe(b))
	}
	m.row("Recovery", safe(recoveryWords(v.Recovery)))
	for _, f := range r.Verdict.Findings {
		if f.Note {
			m.row("Noted", safe(f.Summary))
		}
	}
}

// countWords has every count that is not zero in bold, if it is one to look at.
func countWords(cs []count) string {
	var words []string
	for _, c := range cs {
		s := fmt.Sprintf("%d %s", c.N, c.Word)
		if c.Bad && c.N > 0 {
			s = "**" + s + "**"
		}
		words = append(words, s)
	}
	return strings.Join(words, ", ")
}

func (m *markdown) losses(r Report) {
	if len(r.Verdict.Losses) == 0 {
		return
	}
	m.table("Lost", "", "Cause")
	for i, g := range r.Verdict.Losses {
		if i == maxRows {
			m.row("", "", fmt.Sprintf("and %d more causes, in the report", len(r.Verdict.Losses)-i))
			break
		}
		cause := safe(g.Cause)
		if !g.Found {
			cause = "**unattributed**: " + cause
		}
		m.row(fmt.Sprint(g.Count), safe(g.Class), cause)
	}
}

func (m *markdown) gates(r Report) {
	if len(r.Verdict.Gates) == 0 {
		return
	}
	if len(r.Verdict.Doubts) > 0 {
		m.line("")
		m.line("The gates are not to be trusted, because this does not hold: %s.", safe(strings.Join(r.Verdict.Doubts, ", ")))
	}
	m.table("Gate", "", "Value", "Margin")
	for _, g := range r.Verdict.Gates {
		value, margin := valueWords(g)
		name := safe(g.Name) + "<br>" + code(g.Expr)
		if g.Name == g.Expr {
			name = code(g.Expr)
		}
		if g.Detail != "" {
			value += "<br>" + safe(g.Detail)
		}
		m.row(name, emoji(g.Outcome)+" "+g.Outcome.String(), value, margin)
	}
}

func (m *markdown) faults(r Report) {
	if len(r.Verdict.Faults)+len(r.Verdict.Rollouts) > 0 {
		m.table("Fault or rollout", "Target", "Window", "Proof", "Healed", "Cost")
	}
	for _, f := range r.Verdict.Faults {
		proof := safe(f.Proof)
		if !f.Bit {
			proof = strings.TrimSuffix("**not proven to bite**: "+proof, ": ")
		}
		healed := safe(strings.TrimPrefix(healedWords(f), "healed "))
		if !f.Healed {
			healed = "**not proven**"
		}
		m.row(safe(f.ID)+" ("+safe(f.Name)+")", safe(f.Target), window(f.Start, f.Over), proof, healed, safe(costWords(f.Cost)))
	}
	for _, x := range r.Verdict.Rollouts {
		m.row(safe(x.ID)+" ("+safe(x.Verb)+")", safe(versions(x)), window(&x.Start, x.End), safe(x.Outcome), "", safe(costWords(x.Cost)))
	}
}

func (m *markdown) validity(r Report) {
	bad := 0
	for _, v := range r.Verdict.Validity {
		if !v.OK {
			bad++
		}
	}
	m.line("")
	m.line("<details><summary>Validity: %d of %d conditions hold</summary>", len(r.Verdict.Validity)-bad, len(r.Verdict.Validity))
	m.table("Condition", "", "Seen")
	for _, v := range r.Verdict.Validity {
		sign := "✅"
		if !v.OK {
			sign = "❔"
		}
		m.row(safe(v.Name), sign, safe(v.Detail))
	}
	m.line("")
	m.line("</details>")
}
