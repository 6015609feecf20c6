package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shakedown.dev/shakedown/run"
	"shakedown.dev/shakedown/scenarios"
)

var fenced = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestDocumentedScenarios: what the documentation shows can be run.
func TestDocumentedScenarios(t *testing.T) {
	text, err := os.ReadFile("../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := fenced.FindAllSubmatch(text, -1)
	if len(examples) == 0 {
		t.Fatal("docs/scenarios.md has no example")
	}
	for i, e := range examples {
		s, err := scenarios.Decode(fmt.Sprintf("example %d", i+1), e[1], run.DecodeOptions(nil))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, _, err := run.MakePlan(t.Context(), s, "embedded", 1); err != nil {
			t.Error(err)
		}
	}
}

// TestDocumentedBehaviours: the table has each behaviour with its kinds, and says which fields it needs.
func TestDocumentedBehaviours(t *testing.T) {
	text, err := os.ReadFile("../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range scenarios.Behaviours() {
		row := lineOf(text, "| "+b.Name+":")
		cells := strings.Split(row, "|")
		if len(cells) != 5 {
			t.Errorf("behaviour %s has no row: %q", b.Name, row)
			continue
		}
		if got := strings.TrimSpace(cells[2]); got != strings.Join(b.Kinds, ", ") {
			t.Errorf("%s: kinds %s, they are %v", b.Name, got, b.Kinds)
		}
		for _, field := range b.Has {
			needed := strings.Contains(cells[3], "**"+field+"**")
			if !strings.Contains(cells[3], field) || needed != slices.Contains(b.Needs, field) {
				t.Errorf("%s: %s stands in %q, needed: %v", b.Name, field, cells[3], b.Needs)
			}
		}
	}
}

func lineOf(text []byte, begin string) string {
	for line := range bytes.Lines(text) {
		if strings.HasPrefix(string(line), begin) {
			return strings.TrimSpace(string(line))
		}
	}
	return ""
}

// TestReadmeNamesEveryVerb: a verb that nobody reads of is a verb that nobody uses.
func TestReadmeNamesEveryVerb(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"run", "plan", "check", "report", "compare", "heal", "scenarios", "cluster up", "doctor"} {
		if !regexp.MustCompile("(?m)(^\\| `|shakedown )" + verb + `\b`).Match(text) {
			t.Errorf("README.md does not tell of %s", verb)
		}
	}
}
