package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"shakedown.dev/shakedown/clusters"
)

// sim is a small cluster that behaves as far as faults look: controllers make pods, a scheduler places
// them, kubelets run them, nodes can be broken. The faults meet it through a client that may fail.
type sim struct {
	clusters.Cluster
	client *fake.Clientset
	random *rand.Rand

	api sync.Mutex // held by each call and each tick

	mu       sync.Mutex
	failing  float64 // share of calls that fail
	dead     bool    // the process that calls is dead: nothing it does has an effect
	foreign  bool    // somebody else's cluster
	away     bool    // the API server is stopped
	states   map[string]clusters.NodeState
	cut      map[string]bool
	tables   map[string]bool // node/table
	stopped  map[string]bool // container IDs
	sockets  map[string][]string
	cutAt    map[string]int      // tick, by container
	restarts map[string]int      // of pods by UID
	boots    map[string]int      // tick at which the kubelet of a node that was started looks at its pods
	spoils   map[string][]string // by script and mark: the arguments that it was called with, the container's ID first
	dns      map[string]string   // blocks by mark
	made     int
	ticks    int
}

const (
	simNS      = "teleport"
	simService = "10.9.0.1" // which pods are connected with
)

var errSim = errors.New("simulated failure")

func newSim(seed uint64) *sim {
	s := &sim{
		random: rand.New(rand.NewPCG(seed, 1)),
		states: map[string]clusters.NodeState{}, cut: map[string]bool{}, tables: map[string]bool{}, stopped: map[string]bool{},
		sockets: map[string][]string{}, cutAt: map[string]int{}, restarts: map[string]int{}, boots: map[string]int{}, spoils: map[string][]string{}, dns: map[string]string{},
	}
	var objects []runtime.Object
	for i := range 3 {
		name := fmt.Sprintf("node%d", i+1)
		s.states[name] = clusters.NodeRunning
		objects = append(objects,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{corev1.LabelHostname: name}},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
					Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: name}},
					DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}}}},
			&coordv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease}})
	}
	for _, ns := range []string{simNS, "default"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	for name, n := range map[string]int32{"proxy": 3, "auth": 2, "agent": 2} {
		labels := map[string]string{"app.kubernetes.io/component": name}
		objects = append(objects, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: simNS, UID: types.UID("uid-" + name)},
			Spec: appsv1.DeploymentSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: name + ":1"}},
						Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}}}}},
		}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: simNS}, Data: map[string]string{"teleport.yaml": "version: v3"}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: simNS}, Spec: corev1.ServiceSpec{ClusterIP: simService}})
	}
	objects = append(objects, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "proxy", Namespace: simNS},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/component": "proxy"}}},
	})
	s.client = fake.NewSimpleClientset(objects...) //nolint:staticcheck // NewClientset takes 50 times as long
	s.client.Discovery().(*fakediscovery.FakeDiscovery).Resources = []*metav1.APIResourceList{{
		GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods/eviction", Kind: "Eviction", Group: "policy", Version: "v1"}},
	}}
	s.client.PrependReactor("*", "*", s.call)
	for range 6 {
		s.tick()
	}
	return s
}

// trouble is what a call meets instead of its effect.
func (s *sim) trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || s.failing > 0 && s.random.Float64() < s.failing {
		return errSim
	}
	return nil
}

// call is what every request of the client goes through.
func (s *sim) call(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	if away {
		return true, nil, context.DeadlineExceeded
	}
	err := s.trouble()
	if err == nil {
		return s.perform(action)
	}
	// Half of the failures come after the effect, when the answer is lost.
	s.mu.Lock()
	lost := !s.dead && s.random.IntN(2) == 0
	s.mu.Unlock()
	if lost && action.GetVerb() != "get" && action.GetVerb() != "list" {
		_, _, _ = s.perform(action)
	}
	return true, nil, err
}

// perform has the effect of a call, while no controller works.
func (s *sim) perform(action clienttesting.Action) (bool, runtime.Object, error) {
	s.api.Lock()
	defer s.api.Unlock()
	s.giveUID(action)
	if handled, ret, err := s.evict(action); handled {
		return handled, ret, err
	}
	if handled, ret, err := s.deletePod(action); handled {
		return handled, ret, err
	}
	return clienttesting.ObjectReaction(s.client.Tracker())(action)
}

func (s *sim) giveUID(action clienttesting.Action) {
	create, is := action.(clienttesting.CreateAction)
	if !is || create.GetSubresource() != "" {
		return
	}
	if m, is := create.GetObject().(metav1.Object); is && m.GetUID() == "" {
		m.SetUID(s.uid())
	}
}

func (s *sim) uid() types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	return types.UID(fmt.Sprintf("uid-made-%d", s.made))
}

func (s *sim) deletePod(action clienttesting.Action) (bool, runtime.Object, error) {
	del, is := action.(clienttesting.DeleteActionImpl)
	if !is || del.GetResource().Resource != "pods" {
		return false, nil, nil
	}
	p, err := s.pod(del.GetNamespace(), del.GetName())
	if err != nil {
		return true, nil, err
	}
	if pre := del.DeleteOptions.Preconditions; pre != nil && pre.UID != nil && *pre.UID != p.UID {
		return true, nil, apierrors.NewConflict(corev1.Resource("pods"), p.Name, errors.New("another UID"))
	}
	grace := del.DeleteOptions.GracePeriodSeconds
	if grace != nil && *grace == 0 {
		return true, nil, s.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), p.Namespace, p.Name)
	}
	now := metav1.Now()
	p.DeletionTimestamp = &now
	return true, nil, s.update("pods", p)
}

// evict refuses what would leave fewer than two proxies ready.
func (s *sim) evict(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "eviction" {
		return false, nil, nil
	}
	e := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
	p, err := s.pod(e.Namespace, e.Name)
	if err != nil {
		return true, nil, err
	}
	if p.Labels["app.kubernetes.io/component"] == "proxy" && s.readyPods("proxy") <= 2 {
		return true, nil, apierrors.NewTooManyRequests("budget", 1)
	}
	now := metav1.Now()
	p.DeletionTimestamp = &now
	return true, nil, s.update("pods", p)
}

func (s *sim) update(resource string, o metav1.Object) error {
	gv := corev1.SchemeGroupVersion
	switch o.(type) {
	case *appsv1.Deployment, *appsv1.ReplicaSet:
		gv = appsv1.SchemeGroupVersion
	case *coordv1.Lease:
		gv = coordv1.SchemeGroupVersion
	case *policyv1.PodDisruptionBudget:
		gv = policyv1.SchemeGroupVersion
	case *discoveryv1.EndpointSlice:
		gv = discoveryv1.SchemeGroupVersion
	}
	r := gv.WithResource(resource)
	if _, err := s.client.Tracker().Get(r, o.GetNamespace(), o.GetName()); err != nil {
		return s.client.Tracker().Create(r, o.(runtime.Object), o.GetNamespace())
	}
	return s.client.Tracker().Update(r, o.(runtime.Object), o.GetNamespace())
}

func (s *sim) pod(ns, name string) (*corev1.Pod, error) {
	o, err := s.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("pods"), ns, name)
	if err != nil {
		return nil, err
	}
	return o.(*corev1.Pod).DeepCopy(), nil
}

func (s *sim) pods() []corev1.Pod {
	o, err := s.client.Tracker().List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), simNS)
	if err != nil {
		panic(err)
	}
	out := slices.Clone(o.(*corev1.PodList).Items)
	slices.SortFunc(out, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (s *sim) nodes() []corev1.Node {
	o, err := s.client.Tracker().List(corev1.SchemeGroupVersion.WithResource("nodes"), corev1.SchemeGroupVersion.WithKind("Node"), "")
	if err != nil {
		panic(err)
	}
	return o.(*corev1.NodeList).Items
}

func (s *sim) deployments() []appsv1.Deployment {
	o, err := s.client.Tracker().List(appsv1.SchemeGroupVersion.WithResource("deployments"), appsv1.SchemeGroupVersion.WithKind("Deployment"), simNS)
	if err != nil {
		panic(err)
	}
	return o.(*appsv1.DeploymentList).Items
}

func (s *sim) readyPods(component string) (n int) {
	for _, p := range s.pods() {
		if p.Labels["app.kubernetes.io/component"] == component && isReady(&p) {
			n++
		}
	}
	return n
}

// run lets the controllers work until the test ends them.
func (s *sim) run(ctx context.Context, every time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
			s.tick()
		}
	}
}

// The rest of clusters.Cluster and what it may also be.

func (s *sim) Facts(context.Context) (clusters.Facts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := clusters.Facts{Provider: "embedded", Owned: !s.foreign, DNS: "10.96.0.10", Limits: clusters.Limits{Hold: true}}
	for name, state := range s.states {
		f.Nodes = append(f.Nodes, clusters.Node{Name: name, State: state})
	}
	return f, nil
}

func (s *sim) Name() string { return "sim" }

func (s *sim) Oversees() error { return nil }

func (s *sim) Available(clusters.NodeAction) error { return nil }

func (s *sim) operate(do func()) error {
	if err := s.trouble(); err != nil {
		if !s.dead && s.random.IntN(2) == 0 {
			do()
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	return nil
}

func (s *sim) Kill(_ context.Context, n string) error {
	return s.operate(func() { s.states[n] = clusters.NodeKilled; s.forget(n) })
}
func (s *sim) Pause(_ context.Context, n string) error {
	return s.operate(func() { s.states[n] = clusters.NodePaused })
}
func (s *sim) Resume(_ context.Context, n string) error {
	return s.operate(func() { s.states[n] = clusters.NodeRunning })
}
func (s *sim) Restart(_ context.Context, n string) error {
	return s.operate(func() { s.states[n] = clusters.NodeRunning; s.boots[n] = s.ticks + 4; s.forget(n) })
}
func (s *sim) Partition(_ context.Context, n string, _ ...string) error {
	return s.operate(func() { s.cut[n] = true })
}
func (s *sim) Heal(_ context.Context, n string) error {
	return s.operate(func() { delete(s.cut, n) })
}

// forget is what a node loses with its power: its containers, the rules of its network.
func (s *sim) forget(node string) {
	for _, p := range s.pods() {
		for _, c := range p.Status.ContainerStatuses {
			if p.Spec.NodeName == node {
				s.restarts[strings.TrimPrefix(c.ContainerID, "sim://")]++
			}
		}
	}
	for t := range s.tables {
		if strings.HasPrefix(t, node+"/") {
			delete(s.tables, t)
		}
	}
}

func (s *sim) DialContext(_ context.Context, _, address string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	host, port, _ := net.SplitHostPort(address)
	switch port {
	case "53":
		return s.serve(s.answerDNS), nil
	case "8080":
		return s.serve(s.answerHTTP(host)), nil
	}
	if s.states[host] != clusters.NodeRunning || s.cut[host] {
		return nil, errors.New("no route to host")
	}
	a, b := net.Pipe()
	b.Close()
	return a, nil
}

// Spawn knows the scripts of this package by their text.
func (s *sim) Spawn(_ context.Context, cmd clusters.Command) (exit int, err error) {
	script, args := cmd.Argv[2], cmd.Argv[4:]
	err = s.operate(func() {
		switch script {
		case addTable:
			name, _, _ := strings.Cut(strings.TrimPrefix(args[1], "table inet "), " ")
			s.tables[args[0]+"/"+name] = true
		case dropTable:
			delete(s.tables, args[0]+"/"+args[1])
		case tableGone:
			exit = boolInt(s.tables[args[0]+"/"+args[1]])
		case listTable:
			fmt.Fprintf(cmd.Stdout, `{"packets": %d}`, s.ticks)
		case stopAll:
			s.stopped[args[0]] = true
		case continueAll:
			delete(s.stopped, args[0])
		case noneStopped:
			exit = boolInt(s.stopped[args[0]])
		case countStates:
			if s.stopped[args[0]] {
				fmt.Fprint(cmd.Stdout, "1 State:	T (stopped)")
			}
		case stopServer:
			s.away = true
		case continueServer:
			s.away = false
		case serverRuns:
			exit = boolInt(s.away)
		case inPod:
			s.socketTable(cmd, args)
		default:
			exit = s.other(script, args, cmd.Stdout)
		}
	})
	return exit, err
}

// socketTable has three connections for each container; those that are cut come back after three ticks.
func (s *sim) socketTable(cmd clusters.Command, args []string) {
	id := args[0]
	for len(s.sockets[id]) < 3 && s.ticks >= s.cutAt[id]+3 {
		s.made++
		s.sockets[id] = append(s.sockets[id], fmt.Sprintf("0 0 10.0.0.1:3080 %s:%d", simService, 10000+s.made%50000))
	}
	if slices.Contains(args, "-Kt") {
		s.cutAt[id] = s.ticks
		s.sockets[id] = slices.DeleteFunc(s.sockets[id], func(line string) bool {
			port := line[strings.LastIndex(line, ":")+1:]
			return strings.Contains(args[len(args)-1], "dport = :"+port)
		})
		return
	}
	fmt.Fprint(cmd.Stdout, strings.Join(s.sockets[id], "\n"))
}

func mustNot(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
