package runs

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/undo"
)

// lasting leaves two changes in force until long after the runner's end.
const lasting = `timeline=[{name: hold, wait: 3s}, {name: cordon, do: {nodeCordon: {select: {node: {name: node1}, count: 1}}}}, ` +
	`{name: taint, do: {nodeTaint: {select: {node: {name: node1}, count: 1}, effect: NoSchedule}}}, {name: tail, wait: 5m}]`

// janitorSlack is what the janitor may take beyond the term of the runner's Lease: its looks, undoing, and its own end.
const janitorSlack = 45 * time.Second

// TestE2EJanitorUndoesForADeadRunner kills the runner while faults are in force, and nobody says heal.
func TestE2EJanitorUndoesForADeadRunner(t *testing.T) {
	onlyLong(t)
	r := startRunner(t, lasting)
	before := r.snapshot(t)
	client := r.client(t)
	if runs := held(t, client); len(runs) != 1 {
		t.Fatalf("%d runs hold the cluster, want the one that is under way: %v", len(runs), runs)
	}
	r.await(t, step{"taint node1", undo.Made})
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = r.cmd.Wait()
	began := time.Now()
	if n, err := client.CoreV1().Nodes().Get(t.Context(), "node1", metav1.GetOptions{}); err != nil || !n.Spec.Unschedulable {
		t.Fatalf("the runner is dead, and node1 is not cordoned (%v)", err)
	}
	time.Sleep(undo.DefaultTerm / 2)
	if n, err := client.CoreV1().Nodes().Get(t.Context(), "node1", metav1.GetOptions{}); err != nil || !n.Spec.Unschedulable {
		t.Errorf("node1 was uncordoned %s after the runner's end: its term of %s was not over (%v)", time.Since(began).Round(time.Second), undo.DefaultTerm, err)
	}
	r.sameAs(t, before, undo.DefaultTerm/2+janitorSlack)
	t.Logf("undone %s after the runner's end; its term is %s", time.Since(began).Round(time.Second), undo.DefaultTerm)
	for end := time.Now().Add(janitorSlack); ; time.Sleep(500 * time.Millisecond) {
		runs := held(t, client)
		if len(runs) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the janitor of %v is still there", runs)
		}
	}
	if pending, err := undo.Runs(t.Context(), client); err != nil || len(pending) > 0 {
		t.Errorf("intents of %v are left in the cluster (%v)", pending, err)
	}
	if out, err := r.shakedown(t, "heal", r.folder); err != nil {
		t.Errorf("heal, when all is undone: %v\n%s", err, out)
	}
}

// held are the runs whose janitor or Lease is in the cluster.
func held(t *testing.T, client kubernetes.Interface) (runs []string) {
	t.Helper()
	leases, err := client.CoordinationV1().Leases(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: undo.RunLabel})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases.Items {
		runs = append(runs, l.Labels[undo.RunLabel])
	}
	if len(runs) > 0 {
		return runs
	}
	spaces, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: undo.RunLabel})
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range spaces.Items {
		run := ns.Labels[undo.RunLabel]
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), undo.JanitorName(run), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			runs = append(runs, run)
		}
	}
	return runs
}

// client is one of the runner's cluster.
func (r *runner) client(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	config, err := r.cluster.RESTConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
