package scenarios

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// sound is a system on which everything of the tests can work.
func sound() Facts {
	return Facts{
		Provider: "embedded", Nodes: 3, Unavailable: map[string]string{},
		Components: map[string]Component{
			"auth":  {Replicas: 2, MaxUnavailable: 1, Budget: &Budget{"teleport-auth", 1}},
			"proxy": {Replicas: 3, MaxSurge: 1, Budget: &Budget{"teleport-proxy", 2}},
			"agent": {Replicas: 3, MaxSurge: 1},
		},
	}
}

// withTimeline is a small scenario around a timeline.
func withTimeline(t testing.TB, timeline, more string) *Scenario {
	t.Helper()
	s, err := Decode("test.yaml", []byte(`apiVersion: shakedown.dev/v1alpha1
kind: Scenario
metadata: {name: test, description: x}
spec:
  teleport: {from: {chart: standin, version: 1.0.0, values: {a: {b: 1, c: 2}}}, to: {version: 1.1.0, values: {a: {c: 3}}}}
  load: [{name: a, session: {kind: ssh, behaviour: idle, length: 1m}, arrival: {closed: {held: 5}}}]
  expect: [{name: x, that: "true"}]
  `+more+`
  timeline:
`+timeline), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheCatalogueIsPlanned(t *testing.T) {
	list, err := List()
	if err != nil || len(list) < 2 {
		t.Fatal(err, list)
	}
	for _, l := range list {
		t.Run(l.Name, func(t *testing.T) {
			if l.Description == "" || l.Source == "" {
				t.Error("has no description or source")
			}
			s, err := Get(l.Name, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if s.Name != l.Name {
				t.Errorf("the file is named %s, the scenario %s", l.Name, s.Name)
			}
			facts := sound() // and what the scenario itself brings
			facts.Nodes = max(facts.Nodes, s.Cluster.Nodes)
			if etcd, ok := s.Teleport.From.Values["etcd"].(map[string]any); ok && etcd["enabled"] == true {
				facts.Components["etcd"] = Component{Replicas: 1, MaxUnavailable: 1}
			}
			p, err := NewPlan(s, facts, 7)
			if err != nil {
				t.Fatal(err)
			}
			var tree, file bytes.Buffer
			if err := p.Print(&tree); err != nil {
				t.Fatal(err)
			}
			if err := p.Write(&file); err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/plan/"+l.Name+".txt", tree.Bytes())
			golden(t, "testdata/plan/"+l.Name+".json", file.Bytes())
		})
	}
}

func TestEveryPartOfTheLanguageIsPlanned(t *testing.T) {
	for _, name := range []string{"everything", "design"} {
		s, err := Read("testdata/"+name+".yaml", Options{Files: files})
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPlan(s, sound(), 1)
		if err != nil {
			t.Fatal(err)
		}
		var tree bytes.Buffer
		if err := p.Print(&tree); err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/plan/"+name+".txt", tree.Bytes())
	}
}

func TestALeftOutFaultTakesItsHealAlong(t *testing.T) {
	s := withTimeline(t, `    - {name: a, wait: 3s}
    - {name: b, delay: 2s, do: {nodePause: {select: {node: {any: true}}}}}
    - {name: c, delay: 1s, do: {heal: {of: b}}}
    - {name: d, delay: 4s, wait: 1s}
`, "")
	p, err := NewPlan(s, Facts{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	less := p.Without("b")
	if len(less.Timeline) != 2 || len(p.Timeline) != 4 {
		t.Fatalf("%d steps left of %d", len(less.Timeline), len(p.Timeline))
	}
	want := []Need{{Step: "a", Point: Ended, Plus: Span(7 * time.Second)}}
	if diff := cmp.Diff(want, less.Timeline[1].Needs); diff != "" {
		t.Error(diff)
	}
}

func TestAPlanReadBackIsThePlan(t *testing.T) {
	s, _ := Get("rollout-under-fire", Options{})
	p, err := NewPlan(s, sound(), 1<<63+5)
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := p.Write(&first); err != nil {
		t.Fatal(err)
	}
	back, err := ReadPlan(bytes.NewReader(first.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := back.Write(&second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.String(), second.String()); diff != "" {
		t.Error(diff)
	}
	if kill, _ := back.Step("kill"); kill.Do.Args.Duration("timeout") != 3*time.Minute || !kill.Do.Args.Has("gracePeriod") {
		t.Errorf("arguments lost: %v", kill.Do.Args)
	}
	if _, err := ReadPlan(strings.NewReader(`{"schema":"other"}`)); err == nil {
		t.Error("a plan of another schema was read")
	}
}

// randomTimeline writes a timeline of nested groups, faults and references.
func randomTimeline(t *rapid.T) string {
	var b strings.Builder
	var names []string
	var write func(depth, indent int)
	write = func(depth, indent int) {
		for range rapid.IntRange(1, 3).Draw(t, "entries") {
			name := fmt.Sprintf("e%d", len(names))
			after := ""
			if depth == 0 && len(names) > 0 && rapid.Bool().Draw(t, "after") {
				after = ", after: e0"
			}
			names = append(names, name)
			pad := strings.Repeat(" ", indent)
			kinds := []string{"wait", "kill", "drain", "sequence", "parallel", "repeat", "random"}
			if depth > 2 {
				kinds = kinds[:3]
			}
			switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
			case "wait":
				fmt.Fprintf(&b, "%s- {name: %s, wait: %ds%s}\n", pad, name, 1+len(names), after)
			case "kill":
				fmt.Fprintf(&b, "%s- {name: %s, do: {podDelete: {select: {component: proxy}}}%s}\n", pad, name, after)
			case "drain":
				fmt.Fprintf(&b, "%s- {name: %s, async: true, do: {nodePause: {select: {node: {running: proxy}}, for: 5s}}%s}\n", pad, name, after)
			case "random":
				fmt.Fprintf(&b, "%s- {name: %s, random: {faults: [{podDelete: {select: {component: auth}}}], every: {exponential: {mean: 3s}}, for: 20s}}\n", pad, name)
			case "repeat":
				fmt.Fprintf(&b, "%s- name: %s\n%s  repeat:\n%s    times: 2\n%s    sequence:\n", pad, name, pad, pad, pad)
				write(depth+1, indent+6)
			default:
				fmt.Fprintf(&b, "%s- name: %s\n%s  %s:\n", pad, name, pad, kind)
				write(depth+1, indent+4)
			}
		}
	}
	b.WriteString("    - {name: e0, wait: 1s}\n")
	names = append(names, "e0")
	write(0, 4)
	return b.String()
}

func TestEqualSeedsGiveEqualPlans(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		timeline := randomTimeline(rt)
		seed := rapid.Uint64().Draw(rt, "seed")
		encode := func(seed uint64) (string, *Plan) {
			s := withTimeline(t, timeline, "limits: {pods: 1000, nodes: 1000}")
			p, err := NewPlan(s, sound(), seed)
			if err != nil {
				rt.Fatal(err)
			}
			text, _ := json.Marshal(p)
			return string(text), p
		}
		first, p := encode(seed)
		if second, _ := encode(seed); first != second {
			rt.Error(cmp.Diff(first, second))
		}
		if other, _ := encode(seed + 1); strings.Contains(first, `"seed":`) && other == first {
			rt.Error("another seed gives the same plan")
		}
		soundGraph(rt, p)
		gone := rapid.SliceOf(rapid.SampledFrom(p.Timeline[1:])).Draw(rt, "gone")
		ids := make([]string, len(gone))
		for i := range gone {
			ids[i] = gone[i].ID
		}
		soundGraph(rt, p.Without(ids...))
	})
}

// soundGraph checks what the conductor relies on: unique IDs, needs that exist,
// parents before children, and an order in which everything can run.
func soundGraph(t *rapid.T, p *Plan) {
	seen := map[string]bool{}
	for _, s := range p.Timeline {
		if seen[s.ID] {
			t.Errorf("two steps %s", s.ID)
		}
		if s.Parent != "" && !seen[s.Parent] {
			t.Errorf("%s comes before its group %s", s.ID, s.Parent)
		}
		if len(s.Needs) == 0 {
			t.Errorf("%s needs nothing, not even the start", s.ID)
		}
		seen[s.ID] = true
	}
	done := map[node]bool{{"", Started}: true}
	before := waitsFor(p.Timeline)
	for range 2*len(p.Timeline) + 1 {
		for _, s := range p.Timeline {
			for _, n := range []node{{s.ID, Started}, {s.ID, Ended}} {
				if !slices.ContainsFunc(before[n], func(b node) bool { return !done[b] }) {
					done[n] = true
				}
			}
		}
	}
	for _, s := range p.Timeline {
		if !done[node{s.ID, Ended}] {
			t.Errorf("%s can never end", s.ID)
		}
	}
}

func TestOneMoreStreamChangesNothingForTheOthers(t *testing.T) {
	one := withTimeline(t, "    - {name: kill, do: {podDelete: {select: {component: proxy}}}}\n", "")
	two := withTimeline(t, "    - {name: first, do: {podDelete: {select: {component: proxy}}}}\n    - {name: kill, do: {podDelete: {select: {component: proxy}}}}\n", "")
	two.Load = append(two.Load, two.Load[0])
	two.Load[1].Name = "b"
	p, err1 := NewPlan(one, Facts{}, 3)
	q, err2 := NewPlan(two, Facts{}, 3)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	a, _ := p.Step("kill")
	b, _ := q.Step("kill")
	if a.Do.Selects["select"].Seed != b.Do.Selects["select"].Seed || p.Streams[0].Seed != q.Streams[0].Seed {
		t.Error("an addition changed what others draw")
	}
	if first, _ := q.Step("first"); first.Do.Selects["select"].Seed == b.Do.Selects["select"].Seed {
		t.Error("two faults draw from one seed")
	}
}

func TestTheTargetIsWholeInThePlan(t *testing.T) {
	s := withTimeline(t, "    - {name: w, wait: 1s}\n", "recordings: {mode: node-sync}")
	p, err := NewPlan(s, Facts{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := Release{Chart: "standin", Version: "1.1.0", Values: map[string]any{"a": map[string]any{"b": 1, "c": 3}, "sessionRecording": "node-sync"}}
	if diff := cmp.Diff(want, *p.Teleport.To, cmpopts.IgnoreUnexported(Release{})); diff != "" {
		t.Error(diff)
	}
	if from := s.Teleport.From.Values["a"].(map[string]any); from["c"] != 2 {
		t.Error("the scenario's own values were changed")
	}
}

func TestLeastTime(t *testing.T) {
	s := withTimeline(t, `    - {name: a, wait: 10s}
    - {name: b, async: true, wait: 30s}
    - {name: c, delay: 5s, wait: 5s}
    - {name: d, after: [b, c], repeat: {times: 3, every: 10s, sequence: [{name: e, wait: 4s}]}}
    - {name: f, at: 15s, wait: 1s}
`, "")
	p, err := NewPlan(s, Facts{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.LeastTime(), 40*time.Second+24*time.Second; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSelections(t *testing.T) {
	for _, row := range []struct {
		name string
		s    Selection
		n    int
		want string
	}{
		{"a count", Selection{Component: "proxy", Count: 2}, 3, "2"},
		{"a share is rounded up", Selection{Component: "proxy", Share: 0.5}, 3, "2"},
		{"a share that is whole is not rounded up", Selection{Component: "proxy", Share: 0.3}, 10, "3"},
		{"all", Selection{Component: "proxy", All: true}, 3, "3"},
		{"nobody there", Selection{Component: "proxy", Count: 1, Revision: "old"}, 0, "1 pod of proxy, old revision: nothing there to select"},
		{"all of nobody", Selection{Component: "proxy", All: true}, 0, "all pods of proxy: nothing there to select"},
		{"too few there", Selection{Node: &NodeSelection{Running: "proxy"}, Count: 2}, 1, "2 nodes running proxy: only 1 there, 2 wanted"},
	} {
		n, err := row.s.Want(row.n)
		got := fmt.Sprint(n)
		if err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
	s := Selection{Seed: 5}
	if !slices.Equal(s.Order(9), s.Order(9)) {
		t.Error("one seed, two orders")
	}
	sorted := slices.Sorted(slices.Values(s.Order(9)))
	if !slices.Equal(sorted, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("not a permutation: %v", sorted)
	}
}
