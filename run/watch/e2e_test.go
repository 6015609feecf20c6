package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"

	appsv1 "k8s.io/api/apps/v1"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/clusters/embedded"
	"shakedown.dev/shakedown/history"
)

// proxy is a component that does nothing, on this machine's own root filesystem, behind a Service.
const proxy = `
metadata: {name: teleport-proxy, labels: {app.kubernetes.io/instance: teleport, app.kubernetes.io/component: proxy}}
spec:
  replicas: 3
  selector: {matchLabels: {app.kubernetes.io/component: proxy}}
  template:
    metadata: {labels: {app.kubernetes.io/instance: teleport, app.kubernetes.io/component: proxy, app.kubernetes.io/version: 1.0.0}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: teleport
        image: shakedown.dev/host
        command: [sh, -c, 'trap "exit 0" TERM; sleep 1000 & wait']
        readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
`

const crashing = `
metadata: {name: teleport-auth, labels: {app.kubernetes.io/component: auth}}
spec:
  selector: {matchLabels: {app.kubernetes.io/component: auth}}
  template:
    metadata: {labels: {app.kubernetes.io/component: auth}}
    spec:
      containers:
      - {name: teleport, image: shakedown.dev/host, command: [sh, -c, "sleep 1; exit 3"]}
`

const service = `
metadata: {name: teleport, labels: {app.kubernetes.io/component: proxy}}
spec: {selector: {app.kubernetes.io/component: proxy}, ports: [{port: 443}]}
`

// live is a watcher over a real cluster, with a history on disk.
type live struct {
	*testing.T
	ctx      context.Context
	client   *kubernetes.Clientset
	recorder *history.Recorder
	state    *State
	w        *Watcher
	path     string
}

// TestE2ERollout watches a real Deployment through a rollout, a killed pod, an evicted pod, a crash and a cordon, and
// reads all of it back from the history's file.
func TestE2ERollout(t *testing.T) {
	l := bringUp(t)
	l.install()
	l.rollOut()
	l.cordon()
	killed, evicted := l.endTwo()
	l.await("everything is as wanted again", func() error { return l.state.Settled("proxy") })
	l.w.Stop()
	l.must(l.recorder.Close())
	l.readBack(killed, evicted)
}

func bringUp(t *testing.T) *live {
	kubelite, err := filepath.Abs("../../bin/kubelite")
	if err == nil {
		_, err = os.Stat(kubelite)
	}
	if err != nil {
		t.Skip("needs bin/kubelite, which make build makes:", err)
	}
	if testing.Short() {
		t.Skip("brings a whole cluster up")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	provider := &embedded.Provider{Kubelite: kubelite}
	name := fmt.Sprintf("watch-%d", os.Getpid())
	t.Cleanup(func() { _ = provider.Down(context.WithoutCancel(ctx), name) })
	cluster, err := provider.Up(ctx, clusters.Spec{Name: name, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	l := &live{T: t, ctx: ctx, path: filepath.Join(t.TempDir(), "history.jsonl.zst")}
	config, err := cluster.RESTConfig(ctx)
	l.must(err)
	l.client, err = kubernetes.NewForConfig(config)
	l.must(err)
	_, err = l.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	l.must(err)
	l.recorder, err = history.Create(l.path, history.Options{})
	l.must(err)
	l.state = NewState(l.recorder)
	l.w, err = Start(ctx, Config{Client: l.client, Namespace: namespace, State: l.state})
	l.must(err)
	return l
}

func (l *live) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *live) await(what string, ask func() error) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, 2*time.Minute)
	defer cancel()
	if err := l.state.Await(ctx, ask); err != nil {
		l.Fatalf("%s: %v", what, err)
	}
	l.Logf("%s at %s", what, l.state.Now().Round(10*time.Millisecond))
}

func (l *live) install() {
	var d, crash appsv1.Deployment
	var s corev1.Service
	l.must(yaml.Unmarshal([]byte(proxy), &d))
	l.must(yaml.Unmarshal([]byte(crashing), &crash))
	l.must(yaml.Unmarshal([]byte(service), &s))
	_, err := l.client.CoreV1().Services(namespace).Create(l.ctx, &s, metav1.CreateOptions{})
	l.must(err)
	for _, o := range []*appsv1.Deployment{&d, &crash} {
		_, err := l.client.AppsV1().Deployments(namespace).Create(l.ctx, o, metav1.CreateOptions{})
		l.must(err)
	}
	l.await("installed", func() error { return l.state.Settled("proxy") })
	if n := len(l.state.Proxies()); n != 3 {
		l.Errorf("%d proxies run", n)
	}
	if v, err := l.state.Rollout("proxy"); err != nil || v.Started {
		l.Errorf("a rollout that nobody began: %+v, %v", v, err)
	}
}

func (l *live) rollOut() {
	r := history.Rollout{ID: "r1", Entry: "rollout", Verb: "upgrade", Stage: history.RolloutStart, From: "1.0.0", To: "1.1.0"}
	l.state.Record(history.Event{Data: r})
	patch := []byte(`{"spec":{"template":{"metadata":{"labels":{"app.kubernetes.io/version":"1.1.0"}}}}}`)
	_, err := l.client.AppsV1().Deployments(namespace).Patch(l.ctx, "teleport-proxy", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	l.must(err)
	l.must(l.w.CatchUp(l.ctx))
	if l.state.Settled("proxy") == nil {
		l.Error("settled right after the change")
	}
	l.await("half of the proxies are updated", func() error {
		v, err := l.state.Rollout("proxy")
		if err == nil && v.Updated < 0.5 {
			err = fmt.Errorf("%+v", v)
		}
		return err
	})
	l.await("rolled out", func() error {
		v, err := l.state.Rollout("proxy")
		if err == nil && !v.Done {
			err = fmt.Errorf("%+v", v)
		}
		return err
	})
	l.await("settled", func() error { return l.state.Settled("proxy") })
	r.Stage = history.RolloutEnd
	l.state.Record(history.Event{Outcome: history.OK, Data: r})
}

// endTwo kills one proxy and evicts another.
func (l *live) endTwo() (killed, evicted string) {
	pods, now := l.state.Proxies(), int64(0)
	killed, evicted = pods[0].Name, pods[1].Name
	l.must(l.client.CoreV1().Pods(namespace).Delete(l.ctx, killed, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	l.must(l.client.CoreV1().Pods(namespace).EvictV1(l.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: evicted}}))
	l.await("both are gone", func() error {
		for _, p := range l.state.List("proxy") {
			if p.Name == killed || p.Name == evicted {
				return fmt.Errorf("%s is still there", p.Name)
			}
		}
		return nil
	})
	return killed, evicted
}

func (l *live) cordon() {
	nodes, err := l.client.CoreV1().Nodes().List(l.ctx, metav1.ListOptions{})
	l.must(err)
	for _, on := range []bool{true, false} {
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, on)
		_, err := l.client.CoreV1().Nodes().Patch(l.ctx, nodes.Items[0].Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		l.must(err)
	}
}

// readBack looks for each thing that was done in the history.
func (l *live) readBack(killed, evicted string) {
	f, err := os.Open(l.path)
	l.must(err)
	defer f.Close()
	reader := history.NewReader(f)
	var lines []string
	last := history.Endpoints{}
	for e := range reader.Events() {
		if d, ok := e.Data.(history.Endpoints); ok {
			last = d
		}
		if line := say(e); line != "" {
			lines = append(lines, line)
		}
	}
	if s := reader.Status(); !s.Whole() {
		l.Error(s)
	}
	for _, want := range []string{
		"pod " + killed + " deleting grace 0s", "pod " + killed + " gone",
		"pod " + evicted + " evicted EvictionByEvictionAPI", "pod " + evicted + " deleting grace 5s", "pod " + evicted + " gone",
		"container " + evicted + "/teleport exit 0",
		"exit 3 signal 0 Error init=false",
		"rollout r1 proxy updated 1", "rollout r1 proxy updated 3 ready 3 old 0 total 3",
		"seen", "cordoned", "uncordoned", "endpoints teleport (proxy) ready= ",
	} {
		if !slices.ContainsFunc(lines, func(s string) bool { return strings.Contains(s, want) }) {
			l.Errorf("not in the history: %s", want)
		}
	}
	if len(last.Ready) != 3 || last.Ready[0].UID == "" || last.Ready[0].Node == "" || last.Ready[0].Revision == "" {
		l.Errorf("behind the Service at last: %+v", last)
	}
	for _, s := range lines {
		if strings.HasPrefix(s, "blind") || strings.HasPrefix(s, "apiserver") {
			l.Logf("seen too: %s", s)
		}
	}
	if l.Failed() {
		l.Log(strings.Join(lines, "\n"))
	}
}
