package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	coordv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/undo"
)

const janitorImage = "shakedown.dev/shakedown"

// janitors makes the program an image of the shared cluster.
func janitors(s *space) {
	dir := filepath.Dir(program(s.t))
	s.must(os.WriteFile(filepath.Join(dir, "image.yaml"), []byte("mountPath: /opt/shakedown\nentrypoint: [/opt/shakedown/shakedown]\n"), 0o644))
	s.must(s.c.(clusters.ImageAdder).AddImage(s.ctx, clusters.Image{Name: janitorImage, Source: "host:" + dir}))
}

// TestE2EChaosJanitor leaves a namespace as a runner does that was killed, and has the janitor in the cluster
// find that out and undo it.
func TestE2EChaosJanitor(t *testing.T) {
	t.Parallel()
	inSpace(t, "a Job of ours undoes what a runner left that has vanished, and then itself", func(s *space) {
		janitors(s)
		s.apply(served)
		s.ready("web", 3)
		f := newFaults(s)
		f.inject(step("stuck", "rolloutStuck", scenarios.Args{"component": "web", "how": "quota"}, scenarios.Selection{}))
		run := f.keeper.World.Run
		f.abandon()
		s.must(f.keeper.Undo.Close()) // the kernel closes a dead runner's files; nothing else happens
		holder, term, now := "runner", int32(4), metav1.NowMicro()
		_, err := s.cs.CoordinationV1().Leases(s.name).Create(s.ctx, &coordv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: undo.LeaseName(run), Labels: map[string]string{undo.RunLabel: run}},
			Spec:       coordv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &term, RenewTime: &now},
		}, metav1.CreateOptions{})
		s.must(err)
		began := time.Now()
		// The fault's quota leaves no room for another pod in this namespace: the janitor has one of its own.
		s.must(undo.Employ(s.ctx, s.cs, s.name, run, janitorImage))
		s.eventually("the janitor's work", func() error {
			if left, err := undo.FromCluster(s.ctx, s.cs, run); err != nil || len(left.Pending()) > 0 {
				return fmt.Errorf("pending: %+v (%v)", left.Pending(), err)
			}
			return nil
		})
		t.Logf("undone %s after the janitor was employed; the lease's term is %d s", time.Since(began).Round(time.Millisecond), term)
		s.ready("web", 3)
		quotas, err := s.cs.CoreV1().ResourceQuotas(s.name).List(s.ctx, metav1.ListOptions{})
		if err != nil || len(quotas.Items) > 0 {
			t.Errorf("left behind: %+v (%v)", quotas.Items, err)
		}
		s.eventually("the janitor's end", func() error {
			_, err := s.cs.CoreV1().Namespaces().Get(s.ctx, undo.JanitorName(run), metav1.GetOptions{})
			if err == nil {
				return fmt.Errorf("its namespace is still there")
			}
			_, err = s.cs.RbacV1().ClusterRoles().Get(s.ctx, undo.JanitorName(run), metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("its ClusterRole: %w", err)
			}
			return nil
		})
	})
}
