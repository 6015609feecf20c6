package scenarios

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestTheBlastRadiusCountsWhatCanBeInForceTogether(t *testing.T) {
	const (
		kill  = `do: {podDelete: {select: {component: proxy}}}`
		pause = `do: {nodePause: {select: {node: {any: true}}}}`
	)
	for _, row := range []struct {
		name, timeline string
		want           Blast
	}{
		{"one after the other do not add up", `
    - {name: a, ` + kill + `}
    - {name: b, ` + kill + `}`, Blast{Pods: 1, PodsBy: []string{"a"}}},
		{"side by side they do", `
    - {name: p, parallel: [{name: a, ` + kill + `}, {name: b, ` + kill + `}]}`, Blast{Pods: 2, PodsBy: []string{"a", "b"}}},
		{"one that nobody waits for goes on", `
    - {name: a, async: true, ` + kill + `}
    - {name: b, ` + kill + `}
    - {name: c, after: a, ` + kill + `}`, Blast{Pods: 2, PodsBy: []string{"a", "b"}}},
		{"one that lasts adds to all that follow, once", `
    - {name: a, ` + pause + `}
    - {name: b, ` + pause + `}
    - {name: c, ` + kill + `}`, Blast{Pods: 1, PodsBy: []string{"c"}, Nodes: 2, NodesBy: []string{"a", "b"}}},
		{"until it is healed", `
    - {name: a, ` + pause + `}
    - {name: h, do: {heal: {of: a}}}
    - {name: b, ` + pause + `}`, Blast{Nodes: 1, NodesBy: []string{"a"}}},
		{"or its time is over", `
    - {name: a, do: {nodePause: {select: {node: {any: true}}, for: 5s}}}
    - {name: b, ` + pause + `}`, Blast{Nodes: 1, NodesBy: []string{"a"}}},
		{"rounds follow each other, but a fault that nobody waits for meets the next round", `
    - {name: r, repeat: {times: 3, sequence: [{name: a, ` + kill + `}]}}`, Blast{Pods: 1, PodsBy: []string{"a#1"}}},
		{"a share is counted in pods", `
    - {name: a, do: {podDelete: {select: {component: proxy, share: 50%}}}}`, Blast{Pods: 2, PodsBy: []string{"a"}}},
		{"what may be at any time meets everything", `
    - {name: a, at: 10s, ` + kill + `}
    - {name: b, at: 20s, ` + kill + `}`, Blast{Pods: 2, PodsBy: []string{"a", "b"}}},
	} {
		s := withTimeline(t, row.timeline, "limits: {pods: 99, nodes: 99}")
		p, err := NewPlan(s, sound(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(row.want, p.Blast, cmpopts.IgnoreFields(Blast{}, "Share")); diff != "" {
			t.Errorf("%s: %s", row.name, diff)
		}
	}
}

func TestAThousandFaultsInARowAreCountedQuickly(t *testing.T) {
	s := withTimeline(t, `
    - {name: a, do: {nodePause: {select: {node: {any: true}}}}}
    - {name: r, repeat: {times: 1000, sequence: [{name: b, do: {podDelete: {select: {component: proxy}}}}]}}
    - {name: q, repeat: {times: 100, sequence: [{name: c, async: true, do: {podDelete: {select: {component: proxy}}}}]}}`, "limits: {pods: 1, nodes: 1}")
	p, err := NewPlan(s, sound(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if p.Blast.Pods != 1 || p.Blast.Nodes != 1 {
		t.Errorf("%+v", p.Blast)
	}
}

func TestWhatCannotWorkIsToldBeforeAnythingStarts(t *testing.T) {
	const kill = "    - {name: kill, do: {podDelete: {select: {component: proxy, count: 2}}}}\n"
	const upgrade = "    - {name: up, do: {helmUpgrade: {}}}\n"
	const drain = "    - {name: drain, do: {nodeDrain: {select: {node: {running: proxy}}}}}\n"
	for _, row := range []struct {
		name, timeline string
		change         func(*Facts)
		want           string // empty: it can work
	}{
		{"a sound system", upgrade + drain, func(*Facts) {}, ""},
		{"nothing known is nothing wrong", upgrade + drain, func(f *Facts) { *f = Facts{} }, ""},
		{"anti-affinity and as many replicas as nodes: the new pod finds no room", upgrade,
			func(f *Facts) { f.Components["proxy"] = Component{Replicas: 3, MaxSurge: 1, Apart: true} },
			`test.yaml:10:7: entry "up": the rollout of proxy cannot move: its 3 pods must each have a node of their own (required anti-affinity), all 3 nodes are taken, and maxUnavailable is 0; allow one to be unavailable, or add a node`},
		{"unless an old pod may go first", upgrade,
			func(f *Facts) { f.Components["proxy"] = Component{Replicas: 3, MaxUnavailable: 1, Apart: true} }, ""},
		{"or there is a node to spare", upgrade,
			func(f *Facts) { f.Nodes, f.Components["proxy"] = 4, Component{Replicas: 3, MaxSurge: 1, Apart: true} }, ""},
		{"or the rollout is meant to fail", "    - {name: up, do: {helmUpgrade: {expect: failure}}}\n",
			func(f *Facts) { f.Components["proxy"] = Component{Replicas: 3, MaxSurge: 1, Apart: true} }, ""},
		{"more replicas than nodes: not even the install", drain,
			func(f *Facts) { f.Components["proxy"] = Component{Replicas: 4, MaxUnavailable: 1, Apart: true} },
			"test.yaml:5:20: 4 replicas of proxy must each have a node of their own (required anti-affinity), there are 3 nodes"},
		{"a budget that forbids every eviction", drain,
			func(f *Facts) { f.Components["auth"] = Component{Replicas: 1, Budget: &Budget{"teleport-auth", 1}} },
			`entry "drain": PodDisruptionBudget teleport-auth forbids every eviction of auth: it wants 1 available of 1 replicas, so the drain would never end`},
		{"unless the node is one without such a pod", "    - {name: drain, do: {nodeDrain: {select: {node: {running: proxy, without: auth}}}}}\n",
			func(f *Facts) { f.Components["auth"] = Component{Replicas: 1, Budget: &Budget{"teleport-auth", 1}} }, ""},
		{"a fault that this cluster cannot do", drain,
			func(f *Facts) { f.Unavailable["nodeDrain"] = "no eviction API" },
			`entry "drain": nodeDrain is not available here: no eviction API`},
		{"fewer pods than selected", kill,
			func(f *Facts) { f.Components["proxy"] = Component{Replicas: 1} },
			`entry "kill": selects 2 pods of proxy, there are 1`},
		{"a component that is not there", "    - {name: kill, do: {podDelete: {select: {component: proxi}}}}\n", func(*Facts) {},
			`there is no component "proxi"; did you mean "proxy"? (allowed: agent, auth, proxy)`},
		{"more than the blast radius", kill, func(*Facts) {}, "faults can hit 2 pods at one time (kill), limits.pods is 1"},
		{"fewer nodes than the scenario needs", upgrade, func(f *Facts) { f.Nodes = 2 }, "the scenario needs 3 nodes, the cluster has 2"},
	} {
		facts := sound()
		row.change(&facts)
		_, err := NewPlan(withTimeline(t, row.timeline, ""), facts, 1)
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", row.name, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s:\n got %v\nwant %s", row.name, err, row.want)
		}
	}
}
