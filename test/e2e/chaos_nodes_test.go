package e2e

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// nodeFaults are the faults of nodes, each with what its proofs say of the node.
var nodeFaults = []struct {
	action      string
	args        scenarios.Args
	bit, healed string // %s is the node
	powerCut    bool
}{
	{"nodeCordon", nil, "%s tainted as unschedulable by the node controller", "%s without the taint of an unschedulable node", false},
	{"nodeTaint", scenarios.Args{"key": "shakedown.dev/taint", "effect": "NoExecute"}, "the scheduler refuses a pod on %s", "%s Ready", false},
	{"nodeTaint", scenarios.Args{"key": "shakedown.dev/taint", "effect": "NoSchedule"}, "the scheduler refuses a pod on %s", "%s Ready", false},
	{"nodeKill", nil, "%s not Ready", "%s Ready", true},
	{"nodePause", nil, "%s not Ready", "%s Ready", false},
	{"nodePartition", nil, "%s not Ready", "%s Ready", false},
	{"nodeRestart", scenarios.Args{"down": "3s"}, "the kubelet of %s at", "%s Ready", true},
	{"nodePoolUpdate", scenarios.Args{"timeout": "90s"}, "the kubelet of %s at", "%s Ready", true},
}

// testChaosNodeFaults runs each of them, sees in the cluster what the proof says, heals, and sees that too.
func testChaosNodeFaults(f *faults) {
	f.apply(served)
	f.ready("web", 3)
	for i, row := range nodeFaults {
		name := fmt.Sprintf("%s-%d", row.action, i)
		before := f.containers()
		held := f.inject(step(name, row.action, row.args, onNode("web")))
		bit := f.at(history.FaultBit)
		node := bit.Targets[0].Name
		if want := fmt.Sprintf(row.bit, node); !strings.Contains(bit.Proof, want) {
			f.t.Errorf("%s bit by %q, want %q", name, bit.Proof, want)
		}
		f.brokenAs(row.action, node)
		if held.Step.Lasting {
			f.must(f.keeper.Heal(f.ctx, name))
		}
		f.healed(held)
		if healed := f.at(history.FaultHealed); !strings.Contains(healed.Proof, fmt.Sprintf(row.healed, node)) {
			f.t.Errorf("%s healed by %q, want %q", name, healed.Proof, row.healed)
		}
		if row.powerCut {
			f.startedAnew(name, node, before)
		}
		f.ready("web", 3)
		nothingLeft(f.t, f.c)
	}
}

// containers are the IDs of all that run, by pod.
func (f *faults) containers() map[string]string {
	out := map[string]string{}
	for _, p := range f.pods("web") {
		out[string(p.UID)] = p.Status.ContainerStatuses[0].ContainerID
	}
	return out
}

// startedAnew: when a node is called healed after a power cut, what the API says of its pods is not from before.
func (f *faults) startedAnew(name, node string, before map[string]string) {
	f.t.Helper()
	for _, p := range f.pods("web") {
		id := p.Status.ContainerStatuses
		if p.Spec.NodeName == node && (len(id) == 0 || id[0].ContainerID == "" || id[0].ContainerID == before[string(p.UID)]) {
			f.t.Errorf("%s is called healed, and pod %s is as it was before: %+v", name, p.Name, id)
		}
	}
}

// brokenAs looks at the node by the test's own eyes.
func (f *faults) brokenAs(action, name string) {
	f.t.Helper()
	n, err := f.cs.CoreV1().Nodes().Get(f.ctx, name, metav1.GetOptions{})
	f.must(err)
	ready := false
	for _, c := range n.Status.Conditions {
		ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	tainted := false
	for _, t := range n.Spec.Taints {
		tainted = tainted || t.Key == "shakedown.dev/taint"
	}
	facts, err := f.c.Facts(f.ctx)
	f.must(err)
	state := ""
	for _, x := range facts.Nodes {
		if x.Name == name {
			state = string(x.State)
		}
	}
	ok := map[string]bool{
		"nodeCordon": n.Spec.Unschedulable, "nodeTaint": tainted,
		"nodeKill": !ready && state == "killed", "nodePause": !ready && state == "paused", "nodePartition": !ready && state == "partitioned",
		"nodeRestart": state == "killed", "nodePoolUpdate": true,
	}[action]
	if !ok {
		f.t.Errorf("%s: node %s is %s, ready %t, %+v", action, name, state, ready, n.Spec)
	}
}
