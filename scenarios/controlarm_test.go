package scenarios

import (
	"bytes"
	"strings"
	"testing"
)

func TestTheControlArmsNodeIsSpared(t *testing.T) {
	for _, row := range []struct {
		why, timeline, want string // want is in the plan, or in the error
		refused             bool
	}{
		{"who chooses its nodes spares one", `    - {name: a, do: {nodePause: {select: {node: {any: true}, all: true}}}}`,
			"spared: the node that carries the control arm", false},
		{"which counts in the blast radius", `    - {name: a, do: {nodePause: {select: {node: {any: true}, all: true}}}}`,
			"nodes at once: 2 of 99 allowed (a)", false},
		{"who names its node is said to", `    - {name: a, do: {nodePause: {select: {node: {name: node1}}}}}`,
			"the control arm is kept off the nodes that these name: a", false},
		{"as many as there are leave none", `    - {name: a, do: {nodeDrain: {select: {node: {running: agent}, count: 3}}}}`,
			`entry "a": selects 3 of 3, one of which carries the control arm and is spared`, true},
		{"naming them all leaves none", `
    - {name: a, do: {nodeKill: {select: {node: {ordinal: 0}}, for: 5s}}}
    - {name: b, do: {nodeKill: {select: {node: {ordinal: 1}}, for: 5s}}}
    - {name: c, do: {nodeKill: {select: {node: {ordinal: 2}}, for: 5s}}}`,
			"faults name all 3 nodes, one of which must carry the control arm", true},
		{"a cordon takes nothing away", `    - {name: a, do: {nodeCordon: {select: {node: {any: true}, count: 3}}}}`, "nodes at once: 0", false},
		{"nor does a taint that lets run what runs", `    - {name: a, do: {nodeTaint: {select: {node: {any: true}, count: 3}, effect: NoSchedule}}}`, "nodes at once: 3", false},
		{"one that does not takes it away", `    - {name: a, do: {nodeTaint: {select: {node: {any: true}, count: 3}, effect: NoExecute}}}`, "is spared: add a node", true},
	} {
		p, err := NewPlan(withTimeline(t, row.timeline, "limits: {pods: 99, nodes: 99}"), sound(), 1)
		var text bytes.Buffer
		if err != nil {
			text.WriteString(err.Error())
		} else if err := p.Print(&text); err != nil {
			t.Fatal(err)
		}
		if (err != nil) != row.refused || !strings.Contains(text.String(), row.want) {
			t.Errorf("%s: got %s, want %q", row.why, &text, row.want)
		}
	}
	one := sound()
	one.Nodes = 1
	_, err := NewPlan(withTimeline(t, `    - {name: a, do: {nodeKill: {select: {node: {any: true}, all: true}}}}`, "cluster: {nodes: 1}"), one, 1)
	if err == nil || !strings.Contains(err.Error(), "selects all of 1, one of which carries the control arm") {
		t.Errorf("on one node: %v", err)
	}
}
