package cloud

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func testNode(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name + "-host"}}}
}

func testClaim(change ...func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	class := StorageClassName
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "1234"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			StorageClassName: &class,
			Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	for _, c := range change {
		c(claim)
	}
	return claim
}

func provisionOptions(claim *v1.PersistentVolumeClaim) controller.ProvisionOptions {
	return controller.ProvisionOptions{StorageClass: storageClass(), PVName: "pvc-1234", PVC: claim, SelectedNodeName: "n1"}
}

func TestProvisionAndDelete(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volumes")
	p := &volumes{fake.NewClientset(testNode("n1")), dir}
	pv, state, err := p.Provision(context.Background(), provisionOptions(testClaim()))
	if err != nil || state != controller.ProvisioningFinished {
		t.Fatalf("state %s, error %v", state, err)
	}
	want := filepath.Join(dir, "n1", "pvc-1234")
	if pv.Spec.HostPath.Path != want {
		t.Errorf("path %s, want %s", pv.Spec.HostPath.Path, want)
	}
	if info, err := os.Stat(want); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("the directory: %v (%v), want one for any user", info, err)
	}
	if got := pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]; got.Key != v1.LabelHostname || len(got.Values) != 1 || got.Values[0] != "n1-host" {
		t.Errorf("bound to %v", got)
	}
	if got := pv.Spec.Capacity[v1.ResourceStorage]; got.String() != "1Gi" || pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
		t.Errorf("capacity %s, reclaim %s", got.String(), pv.Spec.PersistentVolumeReclaimPolicy)
	}
	if _, _, err := p.Provision(context.Background(), provisionOptions(testClaim())); err != nil {
		t.Errorf("once more, as after a crash: %v", err)
	}
	if err := os.WriteFile(filepath.Join(want, "data"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time, as after a crash, there is nothing left
		if err := p.Delete(context.Background(), pv); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(want); !os.IsNotExist(err) {
		t.Errorf("the directory is still there (%v)", err)
	}
}

func TestProvisionRefusesWhatADirectoryCannotDo(t *testing.T) {
	type change = func(*controller.ProvisionOptions)
	block := v1.PersistentVolumeBlock
	for _, tt := range []struct {
		sentence string
		change   change
		state    controller.ProvisioningState
		want     string
	}{
		{"shared by nodes", func(o *controller.ProvisionOptions) {
			o.PVC.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteMany}
		}, controller.ProvisioningFinished, "access mode ReadWriteMany: a volume of shakedown.dev/directory is a directory of one node; use ReadWriteOnce"},
		{"read by many nodes", func(o *controller.ProvisionOptions) {
			o.PVC.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
		}, controller.ProvisioningFinished, "access mode ReadOnlyMany"},
		{"a block device", func(o *controller.ProvisionOptions) { o.PVC.Spec.VolumeMode = &block }, controller.ProvisioningFinished, "only Filesystem can be had"},
		{"bound before a pod is there", func(o *controller.ProvisionOptions) { o.SelectedNodeName = "" }, controller.ProvisioningFinished, "use volumeBindingMode WaitForFirstConsumer"},
		{"a clone", func(o *controller.ProvisionOptions) {
			o.PVC.Spec.DataSource = &v1.TypedLocalObjectReference{Kind: "VolumeSnapshot"}
		}, controller.ProvisioningFinished, "neither clones nor snapshots"},
		{"a selector", func(o *controller.ProvisionOptions) { o.PVC.Spec.Selector = &metav1.LabelSelector{} }, controller.ProvisioningFinished, "spec.selector"},
		{"parameters", func(o *controller.ProvisionOptions) { o.StorageClass.Parameters = map[string]string{"type": "ssd"} }, controller.ProvisioningFinished, "there are no parameters"},
		{"mount options", func(o *controller.ProvisionOptions) { o.StorageClass.MountOptions = []string{"ro"} }, controller.ProvisioningFinished, "mountOptions"},
		{"a node that is gone: the scheduler is to choose again", func(o *controller.ProvisionOptions) { o.SelectedNodeName = "n9" }, controller.ProvisioningReschedule, "node n9 is gone"},
	} {
		dir := t.TempDir()
		options := provisionOptions(testClaim())
		tt.change(&options)
		_, state, err := (&volumes{fake.NewClientset(testNode("n1")), dir}).Provision(context.Background(), options)
		if err == nil || !strings.Contains(err.Error(), tt.want) || state != tt.state {
			t.Errorf("%s: state %s, error %v; want %s, %q", tt.sentence, state, err, tt.state, tt.want)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left %v", tt.sentence, left)
		}
	}
}

func TestDeleteTouchesNothingThatIsNotItsOwn(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "volumes")
	for _, d := range []string{filepath.Join(dir, "n1", "pvc-1"), filepath.Join(dir, "n1", "other"), filepath.Join(top, "out", "pvc-1")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../out", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	p := &volumes{nil, dir}
	for _, path := range []string{"/", dir, filepath.Join(dir, "n1"), filepath.Join(dir, "n1", "other"), filepath.Join(dir, "pvc-1"), filepath.Join(top, "out", "pvc-1"), filepath.Join(dir, "link", "pvc-1"), dir + "/n1/../../out/pvc-1"} {
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
		pv.Spec.HostPath = &v1.HostPathVolumeSource{Path: path}
		if err := p.Delete(context.Background(), pv); err == nil {
			t.Errorf("deleted %s", path)
		}
	}
	if err := p.Delete(context.Background(), &v1.PersistentVolume{}); err == nil {
		t.Error("deleted what is no directory")
	}
	for _, d := range []string{filepath.Join(dir, "n1", "pvc-1"), filepath.Join(dir, "n1", "other"), filepath.Join(top, "out", "pvc-1")} {
		if _, err := os.Stat(d); err != nil {
			t.Error(err)
		}
	}
}

func TestDefaultStorageClass(t *testing.T) {
	c := storageClass()
	if c.Name != "standard" || c.Provisioner != "shakedown.dev/directory" || *c.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer ||
		*c.ReclaimPolicy != v1.PersistentVolumeReclaimDelete || *c.AllowVolumeExpansion || c.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" {
		t.Errorf("%+v", c)
	}
}
