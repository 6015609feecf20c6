package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/clusters"
)

// tick lets each controller of the simulated cluster do one thing.
func (s *sim) tick() {
	s.api.Lock()
	defer s.api.Unlock()
	s.mu.Lock()
	s.ticks++
	away := s.away
	s.mu.Unlock()
	if away {
		return
	}
	s.tickNodes()
	s.tickPods()
	for _, d := range s.deployments() {
		s.tickDeployment(d.DeepCopy())
	}
	s.tickBudget()
	s.tickEndpoints()
}

func (s *sim) runs(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[node] == clusters.NodeRunning && !s.cut[node]
}

// booting says whether the node's kubelet lives and has not looked at its pods yet.
func (s *sim) booting(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ticks < s.boots[node]
}

func (s *sim) tickNodes() {
	for _, n := range s.nodes() {
		n := n.DeepCopy()
		up := s.runs(n.Name)
		n.Status.Conditions[0].Status = map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionUnknown}[up]
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
		if n.Spec.Unschedulable {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		}
		if len(n.Spec.Taints) == 0 {
			n.Spec.Taints = nil
		}
		must(s.update("nodes", n))
		if up {
			now := metav1.NewMicroTime(time.Now())
			must(s.update("leases", &coordv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Namespace: corev1.NamespaceNodeLease}, Spec: coordv1.LeaseSpec{RenewTime: &now}}))
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// place is a node that a pod may be put on, or why there is none.
func (s *sim) place(p *corev1.Pod) (string, string) {
	if len(p.Spec.NodeSelector) > 0 && p.Spec.NodeSelector[corev1.LabelHostname] == "" {
		return "", "3 node(s) didn't match Pod's node affinity/selector"
	}
	why := "no node"
	nodes := s.nodes()
	slices.SortFunc(nodes, func(a, b corev1.Node) int {
		if c := s.carried(a.Name) - s.carried(b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, n := range nodes {
		if want := p.Spec.NodeSelector[corev1.LabelHostname]; want != "" && want != n.Name {
			continue
		}
		if len(n.Spec.Taints) > 0 {
			why = "1 node(s) had untolerated taint(s)"
			continue
		}
		if s.runs(n.Name) {
			return n.Name, ""
		}
	}
	return "", why
}

func (s *sim) carried(node string) (n int) {
	for _, p := range s.pods() {
		if p.Spec.NodeName == node {
			n++
		}
	}
	return n
}

func (s *sim) tickPods() {
	executed := map[string]bool{}
	for _, n := range s.nodes() {
		executed[n.Name] = slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
	}
	for _, p := range s.pods() {
		p := p.DeepCopy()
		switch {
		case p.Spec.NodeName == "":
			var why string
			if p.Spec.NodeName, why = s.place(p); why != "" {
				p.Status.Phase = corev1.PodPending
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: why}}
			}
		case !s.runs(p.Spec.NodeName):
			setReady(p, false)
		case s.booting(p.Spec.NodeName):
			continue // what the API said of it before stays
		case p.DeletionTimestamp != nil:
			_ = s.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), p.Namespace, p.Name)
			continue
		case executed[p.Spec.NodeName]:
			now := metav1.Now()
			p.DeletionTimestamp = &now
		default:
			s.runPod(p)
		}
		must(s.update("pods", p))
	}
}

func setReady(p *corev1.Pod, ready bool) {
	status := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}[ready]
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

// runPod is what the kubelet does.
func (s *sim) runPod(p *corev1.Pod) {
	for _, c := range append(slices.Clone(p.Spec.InitContainers), p.Spec.Containers...) {
		if strings.HasPrefix(c.Image, "shakedown.invalid/") {
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, Image: c.Image,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
			return
		}
	}
	p.Status.Phase, p.Status.PodIP = corev1.PodRunning, addressOf(p.UID)
	first := p.Spec.Containers[0]
	if s.misconfigured(p) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: first.Name, LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}}}
		setReady(p, false)
		return
	}
	if len(p.Status.ContainerStatuses) == 0 {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: first.Name, Ready: true, ContainerID: fmt.Sprintf("sim://%s-0", p.UID),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
	}
	status := &p.Status.ContainerStatuses[0]
	id := strings.TrimPrefix(status.ContainerID, "sim://")
	s.mu.Lock()
	ended := s.restarts[id] > 0
	delete(s.restarts, id)
	if ended {
		delete(s.stopped, id)
	}
	s.mu.Unlock()
	if ended {
		status.RestartCount++
		status.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", ContainerID: status.ContainerID}}
		status.ContainerID = fmt.Sprintf("sim://%s-%d", p.UID, status.RestartCount)
	}
	unready := first.ReadinessProbe != nil
	status.Ready = !unready
	setReady(p, !unready)
}

// tickDeployment keeps the number of pods, and replaces one of an old template when all others are ready.
func (s *sim) tickDeployment(d *appsv1.Deployment) {
	rs := s.replicaSet(d)
	var alive, old []corev1.Pod
	ready, updated := 0, 0
	for _, p := range s.pods() {
		if p.Labels["app.kubernetes.io/component"] != d.Name || p.DeletionTimestamp != nil {
			continue
		}
		alive = append(alive, p)
		if isReady(&p) {
			ready++
		}
		if p.Labels["pod-template-hash"] != rs.Labels["pod-template-hash"] {
			old = append(old, p)
		} else {
			updated++
		}
	}
	want := int(*d.Spec.Replicas)
	switch {
	case len(alive) < want || len(old) > 0 && len(alive) == want:
		s.makePod(d, rs)
	case len(alive) > want && len(old) > 0:
		s.shrink(alive, old, ready)
	case len(alive) > want:
		_ = s.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), simNS, alive[0].Name)
	}
	d.Status = appsv1.DeploymentStatus{Replicas: int32(len(alive)), ReadyReplicas: int32(ready), UpdatedReplicas: int32(updated)}
	must(s.update("deployments", d))
}

// shrink takes an old pod away if all are ready, or one that never gets ready because its template is old.
func (s *sim) shrink(alive, old []corev1.Pod, ready int) {
	for _, p := range old {
		if ready == len(alive) || !isReady(&p) {
			_ = s.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), simNS, p.Name)
			return
		}
	}
}

// replicaSet is that of the current template, by its text; going back to an old one finds it again.
func (s *sim) replicaSet(d *appsv1.Deployment) *appsv1.ReplicaSet {
	digest := hash(fmt.Sprintf("%+v", d.Spec.Template))
	name := d.Name + "-" + digest
	r := appsv1.SchemeGroupVersion.WithResource("replicasets")
	s.mu.Lock()
	s.made++
	revision := s.made
	s.mu.Unlock()
	yes := true
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: simNS, UID: "uid-rs-" + d.UID + "-" + "x",
		Labels: map[string]string{"pod-template-hash": digest}, Annotations: map[string]string{"deployment.kubernetes.io/revision": fmt.Sprint(revision)},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: d.Name, UID: d.UID, Controller: &yes}}}}
	if found, err := s.client.Tracker().Get(r, simNS, name); err == nil {
		rs = found.(*appsv1.ReplicaSet).DeepCopy()
		rs.Status.Conditions = nil
		rs.Annotations["deployment.kubernetes.io/revision"] = fmt.Sprint(revision)
	}
	must(s.update("replicasets", rs))
	return rs
}

func (s *sim) makePod(d *appsv1.Deployment, rs *appsv1.ReplicaSet) {
	quotas, err := s.client.Tracker().List(corev1.SchemeGroupVersion.WithResource("resourcequotas"), corev1.SchemeGroupVersion.WithKind("ResourceQuota"), simNS)
	must(err)
	if len(quotas.(*corev1.ResourceQuotaList).Items) > 0 {
		rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"}}
		must(s.update("replicasets", rs))
		return
	}
	yes, uid := true, s.uid()
	template := d.Spec.Template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	p.Name, p.Namespace, p.UID = fmt.Sprintf("%s-%s", rs.Name, uid), simNS, uid
	p.Labels = with(map[string]string{"app.kubernetes.io/component": d.Name}, "pod-template-hash", rs.Labels["pod-template-hash"])
	p.CreationTimestamp = metav1.Now()
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: rs.Name, UID: rs.UID, Controller: &yes}}
	must(s.update("pods", p))
}

func (s *sim) tickBudget() {
	ready := int32(s.readyPods("proxy"))
	must(s.update("poddisruptionbudgets", &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "proxy", Namespace: simNS},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/component": "proxy"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 2, CurrentHealthy: ready, DisruptionsAllowed: max(ready-2, 0)},
	}))
}

func (s *sim) tickEndpoints() {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "proxy", Namespace: simNS}}
	for _, p := range s.pods() {
		if p.Labels["app.kubernetes.io/component"] == "proxy" && isReady(&p) {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{TargetRef: &corev1.ObjectReference{UID: p.UID, Name: p.Name}})
		}
	}
	must(s.update("endpointslices", slice))
}
