package reports

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"shakedown.dev/shakedown/checks"
)

// JUnit writes one test case per gate, per condition of validity and per finding of a check. What fails
// is a failure. What is inconclusive is an error, not skipped: a CI server counts skipped tests as
// good, and a run that proved nothing is not.
func JUnit(w io.Writer, r Report) error {
	v := r.Verdict
	all := junitSuites{Name: "shakedown " + v.Scenario, Time: v.Seconds}
	for _, s := range []junitSuite{gateSuite(r), validitySuite(r), findingSuite(r)} {
		s.count()
		all.add(s)
	}
	if _, err := fmt.Fprintf(w, "%s<!-- %s -->\n", xml.Header, comment(r.sutLine())); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return fmt.Errorf("encode JUnit: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// comment is s as it may stand in an XML comment.
func comment(s string) string { return strings.ReplaceAll(s, "--", "- -") }

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     float64      `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

func (j *junitSuites) add(s junitSuite) {
	j.Suites = append(j.Suites, s)
	j.Tests += s.Tests
	j.Failures += s.Failures
	j.Errors += s.Errors
}

type junitSuite struct {
	Name       string           `xml:"name,attr"`
	Tests      int              `xml:"tests,attr"`
	Failures   int              `xml:"failures,attr"`
	Errors     int              `xml:"errors,attr"`
	Properties *junitProperties `xml:"properties,omitempty"`
	Cases      []junitCase      `xml:"testcase"`
}

type junitProperties struct {
	List []junitProperty `xml:"property"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Failure *junitProblem `xml:"failure,omitempty"`
	Error   *junitProblem `xml:"error,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

func (s *junitSuite) count() {
	for _, c := range s.Cases {
		s.Tests++
		if c.Failure != nil {
			s.Failures++
		}
		if c.Error != nil {
			s.Errors++
		}
	}
}

func newCase(class, name string, o checks.Outcome, message, text string) junitCase {
	c := junitCase{Name: name, Class: class}
	switch p := (&junitProblem{Message: message, Type: o.String(), Text: text}); o {
	case checks.Pass:
		c.Out = message
	case checks.Fail:
		c.Failure = p
	default:
		c.Error = p
	}
	return c
}

func gateSuite(r Report) junitSuite {
	v := r.Verdict
	s := junitSuite{Name: "gates", Properties: &junitProperties{[]junitProperty{
		{"system under test", r.sutLine()}, {"verdict", v.Verdict.String()}, {"seed", fmt.Sprint(v.Seed)}, {"repeat", r.command()},
	}}}
	for _, g := range v.Gates {
		value, margin := valueWords(g)
		message := fmt.Sprintf("%s is %s", g.Expr, value)
		if margin != "" {
			message += ", margin " + margin
		}
		if g.Detail != "" {
			message += ": " + g.Detail
		}
		s.Cases = append(s.Cases, newCase("shakedown.gate", g.Name, g.Outcome, message, ""))
	}
	return s
}

func validitySuite(r Report) junitSuite {
	s := junitSuite{Name: "validity"}
	for _, v := range r.Verdict.Validity {
		o := checks.Inconclusive
		if v.OK {
			o = checks.Pass
		}
		s.Cases = append(s.Cases, newCase("shakedown.validity", v.Name, o, v.Detail, ""))
	}
	return s
}

// findingSuite has the findings of the default checks; gates and validity have suites of their own.
func findingSuite(r Report) junitSuite {
	s := junitSuite{Name: "checks"}
	for _, f := range r.Verdict.Findings {
		if f.Check == "gate" || f.Check == "validity" {
			continue
		}
		s.Cases = append(s.Cases, newCase("shakedown.check", f.Check, f.Outcome, f.Summary, strings.Join(f.Details, "\n")))
	}
	return s
}
