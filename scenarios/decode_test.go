package scenarios

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOverridesReachEveryPartOfTheTree(t *testing.T) {
	s, err := Get("steady", Options{Set: []string{
		"load.terminals.arrival.open.rate=300/m",
		"spec.load[0].session.length=9s",
		`timeline[steady].wait={for: "true", within: 7s}`,
		"metadata.name=quick",
		"teleport.from.values.proxy.highAvailability.replicaCount=5",
		"teleport.from.values.new.deep=[1, 2]",
		`teleport.from.values.annotations.config.example\.com/x=y`,
		"recordings.sample=10%",
	}})
	if err != nil {
		t.Fatal(err)
	}
	values := s.Teleport.From.Values
	got := []any{
		s.Name, s.Load[0].Arrival.Open.Legs[0].From, s.Load[0].Mix[0].Session.Length.Mean, s.Timeline[1].Wait.For, s.Timeline[1].Wait.Within,
		values["proxy"].(map[string]any)["highAvailability"].(map[string]any)["replicaCount"],
		values["new"], values["annotations"], s.Recordings.Sample,
	}
	want := []any{
		"quick", 5.0, Span(9 * time.Second), "true", Span(7 * time.Second), 5, map[string]any{"deep": []any{1, 2}},
		map[string]any{"config": map[string]any{"example.com/x": "y"}}, 0.1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnAliasBombIsRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: shakedown.dev/v1alpha1\nkind: Scenario\nmetadata: {name: bomb, description: x}\nspec:\n  timeline:\n")
	b.WriteString("    - {name: a0, sequence: &s0 [{name: x, wait: 1s}]}\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&b, "    - {name: a%d, sequence: &s%d [{name: p, sequence: *s%d}, {name: q, sequence: *s%d}]}\n", i, i, i-1, i-1)
	}
	_, err := Decode("bomb.yaml", []byte(b.String()), Options{})
	if err == nil || !strings.Contains(err.Error(), tooLarge) {
		t.Errorf("got %.300v", err)
	}
}

func TestReadLooksUpFilesBesideTheScenario(t *testing.T) {
	dir := t.TempDir()
	text, _ := Text("steady")
	text = []byte(strings.Replace(string(text), "length: {exponential: {mean: 6s, min: 1s, max: 10s}}", "length: {file: {path: lengths.txt, max: 30s}}", 1))
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "mine.yaml"), text, 0o644),
		os.WriteFile(filepath.Join(dir, "lengths.txt"), files["lengths.txt"].Data, 0o644)); err != nil {
		t.Fatal(err)
	}
	s, err := Read(filepath.Join(dir, "mine.yaml"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := Distribution{Shape: Empirical, File: "lengths.txt", Max: Span(30 * time.Second), Values: []Span{Span(10 * time.Second), Span(2 * time.Minute)}}
	if diff := cmp.Diff(want, s.Load[0].Mix[0].Session.Length); diff != "" {
		t.Error(diff)
	}
	if _, err := Read(filepath.Join(dir, "none.yaml"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestTheCatalogueHelpsWithNames(t *testing.T) {
	_, err := Get("stedy", Options{})
	if err == nil || !strings.Contains(err.Error(), `did you mean "steady"?`) {
		t.Errorf("got %v", err)
	}
}

func TestACallersVocabularyAndEngineAreAsked(t *testing.T) {
	_, err := Get("rollout-under-fire", Options{
		Words:    Words().Without("nodeDrain", "heal"),
		Sessions: func(s Session) error { return fmt.Errorf("%s is not built yet", s.Behaviour) },
	})
	for _, want := range []string{`there is no fault or action "nodeDrain"`, `there is no fault or action "heal"`, "interactive is not built yet"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q not in %v", want, err)
		}
	}
}

// TestExpressionsAreCheckedThoughSomethingElseIsWrong: all is told at once, and nothing is called unknown
// only because what has that name could not be decoded.
func TestExpressionsAreCheckedThoughSomethingElseIsWrong(t *testing.T) {
	const text = `apiVersion: shakedown.dev/v1alpha1
kind: Scenario
metadata: {name: x, description: x}
spec:
  teleport: {from: {chart: standin}}
  laod: [{name: terminals, session: {kind: ssh, behaviour: interactive, length: 1m}, arrival: {open: {rate: 5/s}}}]
  timeline:
    - {name: kill, when: sessions.held > 1, do: {podDelte: {select: {component: proxy}}}}
    - {name: rest, wait: {for: recovered(), within: soon}}
  expect:
    - {name: quick, that: latency("terminals").after("kill").p99 <= duration("1s")}
    - {name: empty}
`
	asked := map[string]ExprPlace{}
	_, err := Decode("x.yaml", []byte(text), Options{Expr: func(p ExprPlace, e string, n Names) []ExprProblem {
		asked[e] = p
		if !slices.Contains(n.Entries, "kill") || !slices.Contains(n.Streams, "terminals") || !slices.Contains(n.Kinds, "ssh") {
			t.Errorf("names %+v leave out some that stand in the file", n)
		}
		return []ExprProblem{{Line: 1, Column: 1, Message: "is wrong"}}
	}})
	var all Problems
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	want := map[string]ExprPlace{`latency("terminals").after("kill").p99 <= duration("1s")`: PlaceGate,
		"sessions.held > 1": PlaceCondition, "recovered()": PlaceCondition}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked about (-want +got):\n%s", diff)
	}
	for _, part := range []string{"laod", "podDelte", "soon", `entry "kill": is wrong`, `entry "rest": is wrong`, `gate "quick": is wrong`, "that"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("nothing about %s in:\n%v", part, err)
		}
	}
}

func TestExpressionsAreCheckedWithTheNamesOfTheScenario(t *testing.T) {
	got := map[string]Names{}
	places := map[string]ExprPlace{}
	_, err := Get("rollout-under-fire", Options{Expr: func(p ExprPlace, e string, n Names) []ExprProblem {
		got[e], places[e] = n, p
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := Names{
		Entries: []string{"fill", "warmup", "rollout", "kill", "drain", "rolled-out", "uncordon", "recovery", "calm"},
		Streams: []string{"terminals"}, Kinds: []string{"ssh"},
	}
	for expr, place := range map[string]ExprPlace{
		"recovered()": PlaceCondition, `rollout("proxy").updated >= 0.5`: PlaceCondition, "capacity.proxy.min >= 2": PlaceGate,
	} {
		if diff := cmp.Diff(want, got[expr]); diff != "" || places[expr] != place {
			t.Errorf("%s as %s: %s", expr, places[expr], diff)
		}
	}
}

// TestTheVocabularyIsDecodable makes sure that every default and every type in
// the table is one that the decoder knows.
func TestTheVocabularyIsDecodable(t *testing.T) {
	for _, a := range Words() {
		if a.Doc == "" {
			t.Errorf("%s has no sentence", a.Name)
		}
		for _, p := range a.Params {
			if p.Doc == "" {
				t.Errorf("%s.%s has no sentence", a.Name, p.Name)
			}
		}
		d := &decoder{opts: Options{Words: Words()}}
		do := d.action(scalarNode(a.Name), scalarNode(a.Name), mappingNode())
		for _, p := range d.problems {
			if !strings.Contains(p.Message, "needs field") {
				t.Errorf("%s: %s", a.Name, p)
			}
		}
		for _, p := range a.Params {
			if p.Default != "" && !do.Args.Has(p.Name) {
				t.Errorf("%s.%s: default %q was not taken", a.Name, p.Name, p.Default)
			}
		}
	}
}

func TestTheVocabularyHasAReference(t *testing.T) {
	var b strings.Builder
	if err := Words().Markdown(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/words.md", []byte(b.String()))
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"steady", "rollout-under-fire"} {
		text, _ := Text(name)
		f.Add(text, "load[0].arrival.open.rate=1/s", uint64(1))
	}
	everything, err := os.ReadFile("testdata/everything.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(everything, "timeline.burst.repeat.times=3", uint64(2))
	f.Add([]byte("a: &a [*a]\nspec: *a"), "spec=&x [*x]", uint64(3))
	f.Fuzz(func(t *testing.T, text []byte, set string, seed uint64) {
		s, err := Decode("fuzz.yaml", text, Options{Set: []string{set}, Files: files})
		var problems Problems
		if err != nil {
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Errorf("an error that is not Problems: %v", err)
			}
			return
		}
		p, err := NewPlan(s, Facts{}, seed)
		if err != nil {
			return
		}
		if err := p.Print(&strings.Builder{}); err != nil {
			t.Error(err)
		}
		if err := p.Write(&strings.Builder{}); err != nil {
			t.Errorf("a plan that cannot be written: %v", err)
		}
		for _, stream := range p.Streams {
			n := 0
			for range stream.Arrivals() {
				if n++; n > 100 {
					break
				}
			}
			stream.Session(1, 1)
		}
	})
}
