package chaos

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/scenarios"
)

var update = flag.Bool("update", false, "write ../docs/faults.md")

func TestDocumentIsCurrent(t *testing.T) {
	const path = "../docs/faults.md"
	var b bytes.Buffer
	mustNot(t, Document(&b))
	if *update {
		mustNot(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	got, err := os.ReadFile(path)
	mustNot(t, err)
	if diff := cmp.Diff(b.String(), string(got)); diff != "" {
		t.Errorf("docs/faults.md is old; go test ./chaos -update writes it anew:\n%s", diff)
	}
}

// TestTheVocabularyIsWhole: each fault that a scenario may name is carried out.
func TestTheVocabularyIsWhole(t *testing.T) {
	known := Names()
	var words []string
	for _, w := range scenarios.Words() {
		if w.Fault {
			words = append(words, w.Name)
		}
	}
	slices.Sort(known)
	slices.Sort(words)
	if diff := cmp.Diff(words, known); diff != "" {
		t.Error(diff)
	}
}

const around = `apiVersion: shakedown.dev/v1alpha1
kind: Scenario
metadata: {name: example, description: An example.}
spec:
  cluster: {nodes: 3}
  teleport: {from: {chart: standin, version: 1.0.0}}
  load:
    - {name: terminals, session: {kind: ssh, behaviour: interactive, length: 5s}, arrival: {open: {rate: 1/s}}}
  timeline:
    - {name: warmup, wait: 5s}
    - {name: example, do: {%s}}
  expect:
    - {name: x, that: sessions.unattributed == 0}
  limits: {pods: 10, nodes: 3}
`

// TestExamplesAreScenarios: what the documentation shows can be written into a scenario as it stands.
func TestExamplesAreScenarios(t *testing.T) {
	for _, k := range Kinds() {
		s, err := scenarios.Decode(k.Name+".yaml", fmt.Appendf(nil, around, k.Example), scenarios.Options{})
		if err != nil {
			t.Errorf("%s: %v", k.Name, err)
			continue
		}
		if got := s.Timeline[1].Do.Action; got != k.Name {
			t.Errorf("the example of %s is one of %s", k.Name, got)
		}
	}
}
