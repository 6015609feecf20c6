package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/drain"
)

// budgeted is web with two pods, of which a budget wants so many.
func budgeted(least int) string {
	return web(2, "terminationGracePeriodSeconds: 1") + fmt.Sprintf(`---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: %d, selector: {matchLabels: {app: web}}}
`, least)
}

func TestE2EBudgetRefusesEviction(t *testing.T) {
	t.Parallel()
	inSpace(t, "an eviction beyond the budget is refused with 429, one within it is done", func(s *space) {
		s.apply(budgeted(2))
		pods := s.ready("web", 2)
		s.eventually("budget in force", func() error {
			b, err := s.cs.PolicyV1().PodDisruptionBudgets(s.name).Get(s.ctx, "web", metav1.GetOptions{})
			s.must(err)
			if b.Status.ExpectedPods != 2 || b.Status.CurrentHealthy != 2 {
				return fmt.Errorf("%+v", b.Status)
			}
			return nil
		})
		if err := s.evict(pods[0].Name); !apierrors.IsTooManyRequests(err) {
			t.Errorf("eviction beyond the budget: %v, want 429", err)
		}
		one := []byte(`{"spec":{"minAvailable":1}}`)
		_, err := s.cs.PolicyV1().PodDisruptionBudgets(s.name).Patch(s.ctx, "web", "application/merge-patch+json", one, metav1.PatchOptions{})
		s.must(err)
		s.eventually("eviction within the budget", func() error { return s.evict(pods[0].Name) })
		s.ready("web", 2)
	})
}

func (s *space) evict(pod string) error {
	return s.cs.PolicyV1().Evictions(s.name).Evict(s.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: s.name}})
}

func TestE2EDrain(t *testing.T) {
	inSpace(t, "a drain moves the pods without going below the budget", func(s *space) {
		s.apply(budgeted(1))
		pods := s.ready("web", 2)
		node, err := s.cs.CoreV1().Nodes().Get(s.ctx, pods[0].Spec.NodeName, metav1.GetOptions{})
		s.must(err)
		var out bytes.Buffer
		h := &drain.Helper{Ctx: s.ctx, Client: s.cs, GracePeriodSeconds: -1, Timeout: patience, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, Out: &out, ErrOut: &out,
			PodSelector: "app=web"}
		s.must(drain.RunCordonOrUncordon(h, node, true))
		defer func() { s.must(drain.RunCordonOrUncordon(h, node, false)) }()
		if err := drain.RunNodeDrain(h, node.Name); err != nil {
			t.Fatalf("drain: %v\n%s", err, out.String())
		}
		for _, p := range s.ready("web", 2) {
			if p.Spec.NodeName == node.Name {
				t.Errorf("%s is on the drained node", p.Name)
			}
		}
	})
}

// The tests below break nodes and so have a cluster of their own.

func TestE2ENodes(t *testing.T) {
	c, err := up(t.Context(), uniqueName("nodes"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := provider.Down(t.Context(), c.Name()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	for _, step := range []struct {
		name string
		test func(*testing.T, *nodeTest)
	}{
		{"kill is a power cut: connections die, the API notices, pods move; a restart brings the node back", testKill},
		{"pause leaves connections open and answers nothing; resume goes on", testPause},
		{"partition cuts named nodes from each other and no others; heal joins them", testPartition},
		{"partition from the API makes the node NotReady while its pods go on serving", testPartitionFromAPI},
	} {
		t.Run(step.name, func(t *testing.T) {
			s := newSpace(t.Context(), t, c)
			s.apply(onePerNode)
			n := &nodeTest{space: s, ops: nodeOperator(t, c), ip: map[string]string{}}
			for _, p := range s.ready("web", 3) {
				n.ip[p.Spec.NodeName] = p.Status.PodIP
			}
			step.test(t, n)
		})
	}
}

const onePerNode = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: APP}], terminationGracePeriodSeconds: 0}
`

func testKill(t *testing.T, n *nodeTest) {
	n.apply(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: mover}
spec:
  replicas: 1
  selector: {matchLabels: {app: mover}}
  template:
    metadata: {labels: {app: mover}}
    spec:
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
      containers: [{name: x, image: APP}]
`)
	victim := n.space.ready("mover", 1)[0].Spec.NodeName
	n.must(n.ops.Kill(n.ctx, victim))
	if _, err := n.get(n.ip[victim]+":8080", "/"); err == nil {
		t.Error("a pod on a node without power answers")
	}
	n.nodeIs(victim, corev1.ConditionUnknown)
	n.eventually("taint and eviction", func() error {
		for _, p := range n.pods("mover") {
			if p.Spec.NodeName != victim && podReady(&p) {
				return nil
			}
		}
		return fmt.Errorf("no replacement is ready yet")
	})
	n.must(n.ops.Restart(n.ctx, victim))
	n.nodeIs(victim, corev1.ConditionTrue)
	n.space.ready("web", 3)
}

func testPause(t *testing.T, n *nodeTest) {
	conn, err := n.c.DialContext(n.ctx, "tcp", n.ip["node2"]+":8080")
	n.must(err)
	defer conn.Close()
	n.must(n.ops.Pause(n.ctx, "node2"))
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Errorf("the connection broke: %v", err)
	}
	n.must(conn.SetReadDeadline(time.Now().Add(time.Second)))
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a paused node answers")
	}
	n.must(n.ops.Resume(n.ctx, "node2"))
	n.must(conn.SetReadDeadline(time.Now().Add(patience)))
	b := make([]byte, 8)
	if _, err := conn.Read(b); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1") {
		t.Errorf("after the pause the same connection says %q (%v)", b, err)
	}
	n.nodeIs("node2", corev1.ConditionTrue)
}

func testPartition(t *testing.T, n *nodeTest) {
	n.must(n.ops.Partition(n.ctx, "node1", "node2"))
	n.reach("node1", "node2", false)
	n.reach("node2", "node1", false)
	n.reach("node1", "node3", true)
	n.must(n.ops.Heal(n.ctx, "node1"))
	n.reach("node1", "node2", true)
}

func testPartitionFromAPI(t *testing.T, n *nodeTest) {
	n.must(n.ops.Partition(n.ctx, "node1", "api"))
	n.nodeIs("node1", corev1.ConditionUnknown)
	// Its other end is still on the wire: only the cluster's own namespace is cut.
	n.reach("node2", "node1", true)
	n.must(n.ops.Heal(n.ctx, "node1"))
	n.nodeIs("node1", corev1.ConditionTrue)
}
