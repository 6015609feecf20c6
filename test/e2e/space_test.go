package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/e2e-framework/klient/decoder"
	"sigs.k8s.io/e2e-framework/klient/k8s/resources"

	"shakedown.dev/shakedown/clusters"
)

// patience is for things that take a second or two on an idle machine.
const patience = 90 * time.Second

// space is a namespace of the shared cluster that one test has to itself.
type space struct {
	t    *testing.T
	ctx  context.Context
	name string
	cs   *kubernetes.Clientset
	rc   *rest.Config
	c    clusters.Cluster
}

// inSpace runs test in a fresh namespace of the shared cluster, which is deleted
// afterwards. Tests that leave the cluster's nodes alone run beside each other.
func inSpace(t *testing.T, about string, test func(s *space)) {
	t.Run(about, func(t *testing.T) { test(newSpace(t.Context(), t, shared)) })
}

func newSpace(ctx context.Context, t *testing.T, c clusters.Cluster) *space {
	t.Helper()
	s := &space{t: t, ctx: ctx, cs: clientset(t, c), rc: restConfig(t, c), c: c}
	ns, err := s.cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}, metav1.CreateOptions{})
	s.must(err)
	s.name = ns.Name
	t.Cleanup(func() {
		if t.Failed() {
			s.tell()
		}
		now := int64(0)
		_ = s.cs.CoreV1().Namespaces().Delete(context.Background(), s.name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	// Pods are refused before the namespace has its service account.
	s.eventually("default service account", func() error {
		_, err := s.cs.CoreV1().ServiceAccounts(s.name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return s
}

// tell prints what a reader of a failed test asks first.
func (s *space) tell() {
	ctx := context.Background()
	if pods, err := s.cs.CoreV1().Pods(s.name).List(ctx, metav1.ListOptions{}); err == nil {
		for _, p := range pods.Items {
			s.t.Logf("pod %s on %s: %s %+v", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.ContainerStatuses)
		}
	}
	if events, err := s.cs.CoreV1().Events(s.name).List(ctx, metav1.ListOptions{}); err == nil {
		for _, e := range events.Items {
			s.t.Logf("event %s %s: %s", e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
}

func (s *space) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// eventually polls until check is content; at the end its last complaint fails the test.
func (s *space) eventually(what string, check func() error) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// apply creates the objects of a manifest, in which APP and HOST stand for the
// two images.
func (s *space) apply(manifest string) {
	s.t.Helper()
	r, err := resources.New(s.rc)
	s.must(err)
	manifest = strings.NewReplacer("image: APP", "image: "+appImage, "image: HOST", "image: "+hostImage).Replace(manifest)
	s.must(decoder.DecodeEach(s.ctx, strings.NewReader(manifest), decoder.CreateHandler(r), decoder.MutateNamespace(s.name)))
}

// web is a Deployment of the test's program that is ready when it serves, as a document of YAML; lines stand in its
// pods' spec.
func web(replicas int, lines ...string) string {
	var spec strings.Builder
	for _, l := range lines {
		spec.WriteString("      " + l + "\n")
	}
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
%s      containers: [{name: web, image: APP, readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}}]
`, replicas, spec.String())
}

func (s *space) pod(name string) *corev1.Pod {
	s.t.Helper()
	p, err := s.cs.CoreV1().Pods(s.name).Get(s.ctx, name, metav1.GetOptions{})
	s.must(err)
	return p
}

// pods lists those of the label app.
func (s *space) pods(app string) []corev1.Pod {
	s.t.Helper()
	list, err := s.cs.CoreV1().Pods(s.name).List(s.ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	s.must(err)
	return list.Items
}

// ready waits until n pods of the label app are Ready and returns them.
func (s *space) ready(app string, n int) []corev1.Pod {
	s.t.Helper()
	var out []corev1.Pod
	s.eventually(fmt.Sprintf("%d pods of %s ready", n, app), func() error {
		out = nil
		for _, p := range s.pods(app) {
			if podReady(&p) && p.DeletionTimestamp == nil {
				out = append(out, p)
			}
		}
		if len(out) != n {
			return fmt.Errorf("%d are", len(out))
		}
		return nil
	})
	return out
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// terminated waits until the container has ended and returns how.
func (s *space) terminated(pod, container string) *corev1.ContainerStateTerminated {
	s.t.Helper()
	var out *corev1.ContainerStateTerminated
	s.eventually(pod+" terminated", func() error {
		for _, c := range s.pod(pod).Status.ContainerStatuses {
			if c.Name == container && c.State.Terminated != nil {
				out = c.State.Terminated
				return nil
			}
		}
		return fmt.Errorf("still %s", s.pod(pod).Status.Phase)
	})
	return out
}

// deleted waits until the pod is gone and says how long that took.
func (s *space) deleted(pod string) time.Duration {
	s.t.Helper()
	start, uid := time.Now(), s.pod(pod).UID
	s.must(s.cs.CoreV1().Pods(s.name).Delete(s.ctx, pod, metav1.DeleteOptions{}))
	s.eventually(pod+" gone", func() error {
		p, err := s.cs.CoreV1().Pods(s.name).Get(s.ctx, pod, metav1.GetOptions{})
		if err == nil && p.UID == uid { // its controller may have made another of the same name
			return fmt.Errorf("still there")
		}
		return nil
	})
	return time.Since(start)
}

// exec runs a command in the pod's first container and returns its output.
func (s *space) exec(pod string, argv ...string) (string, error) {
	s.t.Helper()
	return s.execIn(pod, "", argv...)
}

func (s *space) execIn(pod, container string, argv ...string) (string, error) {
	s.t.Helper()
	return s.stream(pod, container, nil, false, argv...)
}

func (s *space) stream(pod, container string, stdin io.Reader, tty bool, argv ...string) (string, error) {
	s.t.Helper()
	req := s.cs.CoreV1().RESTClient().Post().Resource("pods").Namespace(s.name).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: argv, Stdin: stdin != nil, Stdout: true, Stderr: !tty, TTY: tty}, scheme.ParameterCodec)
	ex, err := remotecommand.NewWebSocketExecutor(s.rc, "GET", req.URL().String())
	s.must(err)
	var out together
	opts := remotecommand.StreamOptions{Stdin: stdin, Stdout: &out, Tty: tty}
	if !tty {
		opts.Stderr = &out
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	err = ex.StreamWithContext(ctx, opts)
	return out.String(), err
}

// together is where two streams end up that are copied at once.
type together struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *together) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *together) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// get fetches http://address/path from inside the cluster's network.
func (s *space) get(address, path string) (string, error) {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return s.c.DialContext(ctx, network, addr)
		},
	}}
	resp, err := client.Get("http://" + address + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// answers waits until address answers with what ok accepts.
func (s *space) answers(address string, ok func(body string) bool) {
	s.t.Helper()
	s.eventually("answer of "+address, func() error {
		body, err := s.get(address, "/")
		if err == nil && !ok(body) {
			err = fmt.Errorf("it says %q", body)
		}
		return err
	})
}
