package runs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"shakedown.dev/shakedown/chaos"
	"shakedown.dev/shakedown/checks"
)

// well is what a system to which nothing is done has to come to.
const well = `expect=[{name: nothing dropped, that: sessions.dropped == 0}, {name: nothing refused, that: sessions.refused == 0}, ` +
	`{name: nobody hangs, that: sessions.stalled == 0}, {name: every recording complete, that: recordings.complete == recordings.expected}, ` +
	`{name: both proxies serve, that: capacity.proxy.min >= 2}]`

// losing has a proxy killed under its sessions, which is a fault that needs no machine.
const (
	losing = `timeline=[{name: hold, wait: 6s}, {name: kill, do: {podDelete: {select: {component: proxy, count: 1}, gracePeriod: 0s}}}, ` +
		`{name: recovery, wait: {for: recovered(), within: 90s}}, {name: calm, wait: 20s}]`
	losses = `expect=[{name: every loss explained, that: sessions.unattributed == 0}, {name: something was lost, that: sessions.dropped > 0}, ` +
		`{name: one proxy serves, that: capacity.proxy.min >= 1}]`
)

// TestE2EExistingCluster has whole runs on a cluster that somebody else made: known by a kubeconfig and a context, with
// what others have in it. The runs pass, and nothing is there afterwards that was not there before.
func TestE2EExistingCluster(t *testing.T) {
	o := others(t)
	scenario := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(scenario, planted, 0o600); err != nil {
		t.Fatal(err)
	}
	// Little load, and patience: what is tried is the way, not how fast it is. A port-forward costs an API server and a
	// kubelet on this very machine.
	quiet := []string{"--set", "load[terminals].arrival.open.rate=1/s", "--set", "load[terminals].session.pace=500ms", "--set", "validity.stall=10s", "--set", "validity.lateP99=2s"}
	if out, code := o.run(t, t.TempDir(), scenario, "--set", losing, "--set", losses); code != 64 || !strings.Contains(out, "kubectl label namespace "+namespace) {
		t.Errorf("faults without the namespace's label: exit status %d, want 64 and how it is labelled\n%s", code, out)
	}
	t.Run("steady, in a namespace of its own", func(t *testing.T) {
		onlyLong(t)
		v := o.passes(t, "port-forward", scenario, append(slices.Clone(quiet), "--set", well)...)
		if v.Measures.Sessions.Opened < 8 || v.Measures.Recordings.Complete != v.Measures.Sessions.Opened {
			tell(t, v)
			t.Error("it passed without looking at its sessions")
		}
	})
	t.Run("a proxy is killed, in a namespace with the word of its owner, and load comes from a pod", func(t *testing.T) {
		onlyLong(t)
		o.allow(t)
		v := o.passes(t, "gateway", scenario, append(slices.Clone(quiet), "--reach", "gateway", "--load-image", "shakedown.dev/shakedown:1", "--set", losing, "--set", losses)...)
		if len(v.Faults) != 1 || !v.Faults[0].Bit || !v.Faults[0].Healed {
			t.Errorf("faults %+v, want one that bit and healed", v.Faults)
		}
	})
	t.Run("the pod that load comes from goes away", func(t *testing.T) {
		onlyLong(t)
		o.breaksOff(t, scenario, quiet...)
	})
}

// breaksOff takes the pod away that load comes from: nothing is held against Teleport when the way to it broke.
func (o *cluster) breaksOff(t *testing.T, scenario string, more ...string) {
	t.Helper()
	before, dir := o.everything(t), t.TempDir()
	cmd := o.command(t.Context(), t, dir, scenario, append(more, "--reach", "gateway", "--load-image", "shakedown.dev/shakedown:1")...)
	said := &bytes.Buffer{}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(io.TeeReader(stderr, said)); lines.Scan(); {
		if strings.Contains(lines.Text(), "Holding sessions") {
			time.Sleep(4 * time.Second) // sessions are held by then
			err := o.client.CoreV1().Pods(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=shakedown-gateway"})
			if err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait()
	o.unchanged(t, before)
	v := verdictIn(t, dir, said.String())
	if code := cmd.ProcessState.ExitCode(); code != 2 || v.Verdict != checks.Inconclusive {
		t.Errorf("exit status %d, verdict %s, want inconclusive", code, v.Verdict)
	}
	if !slices.ContainsFunc(v.Validity, func(c checks.Validity) bool { return !c.OK && strings.Contains(c.Detail, "the stream that it shares") }) {
		tell(t, v)
		t.Errorf("no condition says that the stream was lost\n%s", said)
	}
}

// cluster is one that is not ours: what a kubeconfig says of it.
type cluster struct {
	kubeconfig, context string
	config              *rest.Config
	client              kubernetes.Interface
}

// others brings a cluster up by the command line, as somebody else would have, and puts a workload into it.
func others(t *testing.T) *cluster {
	t.Helper()
	name := fmt.Sprintf("others-%d", os.Getpid())
	o := &cluster{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if out, err := exec.CommandContext(ctx, program(t, "shakedown"), "cluster", "down", "--name", name).CombinedOutput(); err != nil {
			t.Errorf("cluster down: %v\n%s", err, out)
		}
	})
	program(t, "kubelite")
	out, err := exec.CommandContext(t.Context(), program(t, "shakedown"), "cluster", "up", "--name", name, "--nodes", "2",
		"--kubeconfig", o.kubeconfig, "--image", "shakedown.dev/standin=host:"+standinFolder(t), "--image", "shakedown.dev/shakedown=host:"+ownFolder(t)).CombinedOutput()
	if err != nil {
		t.Fatalf("cluster up: %v\n%s", err, out)
	}
	file, err := clientcmd.LoadFromFile(o.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	o.context = file.CurrentContext
	if o.config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig); err != nil {
		t.Fatal(err)
	}
	if o.client, err = kubernetes.NewForConfig(o.config); err != nil {
		t.Fatal(err)
	}
	o.settle(t, "default")
	return o
}

// standinFolder is the stand-in as an image of the embedded cluster.
func standinFolder(t *testing.T) string {
	t.Helper()
	return imageFolder(t, "standin", []string{"teleport", "tctl", "standin"},
		"mountPath: /opt/teleport/bin\nentrypoint: [/opt/teleport/bin/teleport, start, -c, /etc/teleport/teleport.yaml]\n"+
			"env: {PATH: \"/opt/teleport/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"}\n")
}

// ownFolder is the program itself as an image.
func ownFolder(t *testing.T) string {
	t.Helper()
	return imageFolder(t, "shakedown", []string{"shakedown"}, "mountPath: /opt/shakedown\nentrypoint: [/opt/shakedown/shakedown]\n")
}

func imageFolder(t *testing.T, of string, names []string, spec string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(program(t, of))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, names[0]), text, 0o755) //nolint:gosec // it is a program
	}
	for _, name := range names[1:] {
		if err == nil {
			err = os.Link(filepath.Join(dir, names[0]), filepath.Join(dir, name))
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "image.yaml"), []byte(spec), 0o600)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755) //nolint:gosec // its programs run as others than we
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// settle puts what somebody might have into a namespace, and waits until it runs.
func (o *cluster) settle(t *testing.T, namespace string) {
	t.Helper()
	one, labels := int32(1), map[string]string{"app": "theirs"}
	theirs := metav1.ObjectMeta{Name: "theirs", Labels: labels}
	_, err := o.client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: theirs, Data: map[string]string{"a": "b"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deployments := o.client.AppsV1().Deployments(namespace)
	_, err = deployments.Create(t.Context(), &appsv1.Deployment{ObjectMeta: theirs, Spec: appsv1.DeploymentSpec{
		Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "theirs", Image: "shakedown.dev/standin:1.0.0", Command: []string{"sleep", "86400"}}},
		}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		d, err := deployments.Get(t.Context(), "theirs", metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas == 1 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a Deployment of somebody else's does not run: %v, %+v", err, d)
		}
	}
}

// allow makes the namespace of the run beforehand, with the label by which its owner lets things be broken in it.
func (o *cluster) allow(t *testing.T) {
	t.Helper()
	_, err := o.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{chaos.AllowLabel: chaos.AllowValue},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if _, err = o.client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{}); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	o.settle(t, namespace)
}

// run is one of the command line, whose load goes through the API server, as it does unless it is told otherwise.
func (o *cluster) run(t *testing.T, out, scenario string, more ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	cmd := o.command(ctx, t, out, scenario, more...)
	said, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(said), cmd.ProcessState.ExitCode()
}

func (o *cluster) command(ctx context.Context, t *testing.T, out, scenario string, more ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, program(t, "shakedown"), append([]string{"run", scenario, "--cluster", "existing",
		"--kubeconfig", o.kubeconfig, "--context", o.context, "--seed", "1", "--progress", "plain", "--out", out}, more...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd
}

// passes carries a run out until the machine let it be measured, and compares what is in the cluster.
func (o *cluster) passes(t *testing.T, way, scenario string, more ...string) checks.Verdict {
	t.Helper()
	for range 3 {
		before, dir := o.everything(t), t.TempDir()
		said, code := o.run(t, dir, scenario, more...)
		o.unchanged(t, before)
		v := verdictIn(t, dir, said)
		switch {
		case code == 2 && busy(v), code != 0 && crowded(t):
			tell(t, v)
			continue
		case code != 0 || v.Verdict != checks.Pass:
			t.Fatalf("exit status %d, verdict %s, want pass\n%s", code, v.Verdict, said)
		case v.Cluster.Provider != "existing" || v.Cluster.Name != o.context || v.Cluster.Reach != way:
			t.Errorf("the verdict is about %+v, want the context %s by %s", v.Cluster, o.context, way)
		}
		return v
	}
	t.Skip("three runs in a row were inconclusive for reasons of the machine: it is too busy to measure on")
	return checks.Verdict{}
}

// crowded says whether so much else wants the processors that the proxies' handshakes take longer than canaries wait,
// while the control arm, which computes little, stays quick.
func crowded(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		t.Fatal(err)
	}
	return load > float64(4*runtime.NumCPU())
}

func verdictIn(t *testing.T, dir, said string) (v checks.Verdict) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", checks.VerdictFile))
	if err != nil || len(files) != 1 {
		t.Fatalf("verdicts %v, %v\n%s", files, err, said)
	}
	text, err := os.ReadFile(files[0])
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}
