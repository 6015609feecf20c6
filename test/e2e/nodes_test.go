package e2e

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/clusters"
)

// nodeTest is a space with one pod on each node.
type nodeTest struct {
	*space
	ops clusters.NodeOperator
	ip  map[string]string // address of the pod on each node
}

func nodeOperator(t *testing.T, c clusters.Cluster) clusters.NodeOperator {
	t.Helper()
	ops, ok := c.(clusters.NodeOperator)
	if !ok {
		t.Fatal("the embedded cluster cannot do anything to nodes")
	}
	return ops
}

// nodeIs waits until the API says so of the node's readiness.
func (n *nodeTest) nodeIs(name string, want corev1.ConditionStatus) {
	n.t.Helper()
	n.eventually(name+" Ready="+string(want), func() error {
		node, err := n.cs.CoreV1().Nodes().Get(n.ctx, name, metav1.GetOptions{})
		n.must(err)
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == want {
				return nil
			}
		}
		return fmt.Errorf("%+v", node.Status.Conditions)
	})
}

// reach checks whether the pod on one node gets through to that on the other.
func (n *nodeTest) reach(from, to string, want bool) {
	n.t.Helper()
	var pod string
	for _, p := range n.pods("web") {
		if p.Spec.NodeName == from && p.DeletionTimestamp == nil {
			pod = p.Name
		}
	}
	n.eventually(fmt.Sprintf("%s reaches %s: %v", from, to, want), func() error {
		_, err := n.exec(pod, "perl", "-MIO::Socket::INET", "-e", httpGet, n.ip[to]+":8080")
		if got := err == nil; got != want {
			return errors.Join(fmt.Errorf("it does: %v", got), err)
		}
		return nil
	})
}
