package cloud

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestMain takes away the process-wide brake on errors: it remembers when the last
// one was, which makes no sense from one bubble of time to the next.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}

// inCloud runs test against a running cloud, in a bubble of time of its own, and
// then holds everything that was asked of the API against Rules.
func inCloud(t *testing.T, client *fake.Clientset, dir string, test func(ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- run(ctx, client, Options{ClusterName: "test", Dir: dir}) }()
		settle()
		test(ctx)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		settle()
	})
	for _, action := range client.Actions() {
		if !allowed(action) {
			t.Errorf("Rules do not allow to %s %s %s", action.GetVerb(), action.GetResource().Resource, action.GetSubresource())
		}
	}
}

func settle() { time.Sleep(time.Minute); synctest.Wait() }

func allowed(action clienttesting.Action) bool {
	resource := action.GetResource().Resource
	if sub := action.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	for _, rule := range Rules() {
		if slices.Contains(rule.APIGroups, action.GetResource().Group) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, action.GetVerb()) {
			return true
		}
	}
	return false
}

var (
	servicesGVR = v1.SchemeGroupVersion.WithResource("services")
	claimsGVR   = v1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	volumesGVR  = v1.SchemeGroupVersion.WithResource("persistentvolumes")
	eventsGVR   = v1.SchemeGroupVersion.WithResource("events")
)

// get reads past the client, so that it does not count as an action.
func get[T runtime.Object](t *testing.T, client *fake.Clientset, gvr schema.GroupVersionResource, namespace, name string) T {
	t.Helper()
	object, err := client.Tracker().Get(gvr, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return object.(T)
}

func events(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	list, err := client.Tracker().List(eventsGVR, v1.SchemeGroupVersion.WithKind("Event"), "ns")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, e := range list.(*v1.EventList).Items {
		text.WriteString(e.Reason + ": " + e.Message + "\n")
	}
	return text.String()
}

func TestLoadBalancerGetsAndLosesItsAddress(t *testing.T) {
	client := fake.NewClientset(testNode("n1"), testService("x", ""), testService("y", ""))
	inCloud(t, client, t.TempDir(), func(ctx context.Context) {
		x, y := get[*v1.Service](t, client, servicesGVR, "ns", "x"), get[*v1.Service](t, client, servicesGVR, "ns", "y")
		if len(x.Status.LoadBalancer.Ingress) != 1 || len(y.Status.LoadBalancer.Ingress) != 1 || x.Status.LoadBalancer.Ingress[0].IP == y.Status.LoadBalancer.Ingress[0].IP {
			t.Fatalf("addresses %v and %v\n%s", x.Status.LoadBalancer.Ingress, y.Status.LoadBalancer.Ingress, events(t, client))
		}
		if len(x.Finalizers) != 1 {
			t.Errorf("finalizers %v, want the load balancer's", x.Finalizers)
		}
		if got := events(t, client); strings.Contains(got, "no available nodes") {
			t.Errorf("events:\n%s", got)
		}
		now := metav1.Now()
		gone := x.DeepCopy()
		gone.DeletionTimestamp = &now
		if err := client.Tracker().Update(servicesGVR, gone, "ns"); err != nil {
			t.Fatal(err)
		}
		settle()
		if x := get[*v1.Service](t, client, servicesGVR, "ns", "x"); len(x.Finalizers) != 0 || len(x.Status.LoadBalancer.Ingress) != 0 {
			t.Errorf("a deleted Service is held by %v and has %v", x.Finalizers, x.Status.LoadBalancer.Ingress)
		}
	})
}

// claimed is a claim in the state in which Kubernetes hands it to a provisioner.
func claimed(claim *v1.PersistentVolumeClaim) {
	claim.Annotations = map[string]string{"volume.kubernetes.io/storage-provisioner": Provisioner, "volume.kubernetes.io/selected-node": "n1"}
}

func TestClaimGetsAVolumeAndItsDirectoryGoesWithIt(t *testing.T) {
	dir := t.TempDir()
	client := fake.NewClientset(testNode("n1"), testClaim(claimed))
	inCloud(t, client, dir, func(ctx context.Context) {
		pv := get[*v1.PersistentVolume](t, client, volumesGVR, "", "pvc-1234")
		if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.Name != "claim" || pv.Spec.StorageClassName != StorageClassName {
			t.Errorf("volume %+v", pv.Spec)
		}
		if _, err := os.Stat(pv.Spec.HostPath.Path); err != nil {
			t.Error(err)
		}
		released := pv.DeepCopy()
		released.Status.Phase = v1.VolumeReleased
		if err := errors.Join(client.Tracker().Delete(claimsGVR, "ns", "claim"), client.Tracker().Update(volumesGVR, released, "")); err != nil {
			t.Fatal(err)
		}
		settle()
		if _, err := client.Tracker().Get(volumesGVR, "", "pvc-1234"); !apierrors.IsNotFound(err) {
			t.Errorf("the volume is still there (%v)", err)
		}
		if left, _ := os.ReadDir(filepath.Join(dir, "n1")); len(left) > 0 {
			t.Errorf("left on the disk: %v", left)
		}
	})
}

func TestSharedClaimIsToldWhy(t *testing.T) {
	shared := func(c *v1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	}
	client := fake.NewClientset(testNode("n1"), testClaim(claimed, shared))
	inCloud(t, client, t.TempDir(), func(context.Context) {
		// Events are named by the time, which stands still here: those of one moment
		// run together, so the message is looked for alone.
		if got := events(t, client); !strings.Contains(got, "access mode ReadWriteMany: a volume of "+Provisioner) {
			t.Errorf("events:\n%s", got)
		}
	})
}

func TestRunWaitsForTheAPIServer(t *testing.T) {
	client := fake.NewClientset(testNode("n1"))
	refusals := 3
	client.PrependReactor("create", "storageclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
		refusals--
		return refusals >= 0, nil, errors.New("connection refused")
	})
	inCloud(t, client, t.TempDir(), func(ctx context.Context) {
		if _, err := client.Tracker().Get(schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}, "", StorageClassName); err != nil {
			t.Error(err)
		}
	})
}
