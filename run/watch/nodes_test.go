package watch

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func node(name string, ready corev1.ConditionStatus, reason string, cordoned bool, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	n.Spec.Unschedulable, n.Spec.Taints = cordoned, taints
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: reason}}
	return n
}

func TestNodes(t *testing.T) {
	unschedulable := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	unreachable := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
	there := []runtime.Object{
		node("n1", corev1.ConditionTrue, "KubeletReady", false),
		node("n2", corev1.ConditionFalse, "KubeletNotReady", true),
	}
	inBubble(t, there, func(r *rig) {
		r.expect("at first sight only what is not well is told beside the node",
			"node n1 seen", "node n2 seen", "node n2 not-ready KubeletNotReady", "node n2 cordoned")
		r.put(node("n1", corev1.ConditionTrue, "KubeletReady", true, unschedulable))
		r.expect("a cordon is told once, without the taint that comes with it", "node n1 cordoned")
		r.put(node("n1", corev1.ConditionTrue, "KubeletReady", false))
		r.expect("an uncordon", "node n1 uncordoned")
		r.put(node("n1", corev1.ConditionUnknown, "NodeStatusUnknown", false, unreachable))
		r.expect("a lost node", "node n1 not-ready NodeStatusUnknown", "node n1 tainted node.kubernetes.io/unreachable:NoExecute")
		r.put(node("n1", corev1.ConditionTrue, "KubeletReady", false))
		r.expect("a node that is back", "node n1 ready KubeletReady", "node n1 untainted node.kubernetes.io/unreachable:NoExecute")
		r.put(node("n1", corev1.ConditionTrue, "KubeletReady", false))
		r.expect("nothing new")
		r.must(r.client.CoreV1().Nodes().Delete(ctx, "n1", metav1.DeleteOptions{}))
		r.expect("a node that is gone", "node n1 gone")
	})
}

func endpoint(pod string, ready, serving, terminating bool) discoveryv1.Endpoint {
	node := "n1"
	return discoveryv1.Endpoint{
		Addresses: []string{"10.0.0.1"}, NodeName: &node, TargetRef: &corev1.ObjectReference{Name: pod, UID: types.UID("uid-" + pod)},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
	}
}

func slice(name, service string, more map[string]string, of ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels("proxy")}, Endpoints: of}
	s.Labels[discoveryv1.LabelServiceName] = service
	for k, v := range more {
		s.Labels[k] = v
	}
	return s
}

func TestEndpoints(t *testing.T) {
	there := []runtime.Object{
		slice("s4", "teleport", nil), slice("s6", "teleport", nil),
		slice("h", "teleport-v1", map[string]string{corev1.IsHeadlessService: ""}, endpoint("a", true, true, false)),
		slice("other", "other", map[string]string{componentLabel: ""}),
	}
	inBubble(t, there, func(r *rig) {
		r.expect("a Service nothing stands behind is told, a headless one and those of others are not",
			"endpoints teleport (proxy) ready= terminating= notReady=")
		r.put(slice("s4", "teleport", nil, endpoint("b", true, true, false), endpoint("a", false, false, false)))
		r.expect("ready and not ready", "endpoints teleport (proxy) ready=b terminating= notReady=a")
		r.put(slice("s6", "teleport", nil, endpoint("b", true, true, false)))
		r.expect("a second address of the same pod is no second pod")
		r.put(slice("s6", "teleport", nil, endpoint("c", true, true, false)))
		r.expect("slices add up", "endpoints teleport (proxy) ready=b,c terminating= notReady=a")
		r.put(slice("s4", "teleport", nil, endpoint("b", false, true, true), endpoint("a", true, true, false)))
		r.expect("one that ends still serves", "endpoints teleport (proxy) ready=a,c terminating=b notReady=")
		r.must(r.client.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, "s4", metav1.DeleteOptions{}))
		r.expect("a slice that is gone", "endpoints teleport (proxy) ready=c terminating= notReady=")
	})
}

func TestOutagesOfTheAPIServer(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		time.Sleep(2500 * time.Millisecond)
		r.expect("while it answers")
		r.api(errors.New("connection refused"))
		time.Sleep(3 * time.Second)
		r.expect("it is told once that it is gone", "apiserver up=false connection refused")
		if since, down := r.state.outage(); !down || since != 2*time.Second {
			t.Errorf("last seen up at %s, down: %v", since, down)
		}
		if err := r.state.Well(); err == nil {
			t.Error("all is well without an API server")
		}
		r.api(nil)
		time.Sleep(time.Second)
		r.expect("and once that it is back", "apiserver up=true")
		if _, down := r.state.outage(); down {
			t.Error("still down")
		}
	})
}

func TestStartSaysWhatItCannotSee(t *testing.T) {
	if _, err := Start(t.Context(), Config{}); err == nil {
		t.Error("started without anything")
	}
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, sink: &sink{start: time.Now()}}
		r.state = NewState(r.sink)
		client := forbidden("pods")
		_, err := Start(t.Context(), Config{Client: client, Namespace: namespace, State: r.state, Ready: r.ready, Sync: 5 * time.Second})
		if err == nil || !contains(err.Error(), "pods: ", "may not list", "5s") {
			t.Error(err)
		}
		if _, err := r.state.Pods(map[string]string{"component": "proxy"}); !errors.Is(err, errUnseen) {
			t.Errorf("pods of a cluster nobody saw: %v", err)
		}
	})
}
