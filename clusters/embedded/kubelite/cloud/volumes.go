package cloud

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// Provisioner is the name that storage classes call this provisioner by.
const Provisioner = "shakedown.dev/directory"

func newVolumeController(ctx context.Context, client kubernetes.Interface, options Options) *controller.ProvisionController {
	const firstRetry, lastRetry = time.Second, time.Minute
	return controller.NewProvisionController(ctx, client, Provisioner, &volumes{client, options.Dir},
		controller.LeaderElection(false), controller.MetricsPort(0), controller.AddFinalizer(true),
		controller.FailedProvisionThreshold(0), controller.FailedDeleteThreshold(0), // 0: never give up
		controller.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
		controller.CreateProvisionedPVBackoff(wait.Backoff{Duration: firstRetry / 10, Factor: 2, Steps: 10, Cap: lastRetry}))
}

// volumes makes directories and volumes of them. They are of the kind hostPath,
// since that is used where it lies; the kind local would have the kubelet mount.
type volumes struct {
	client kubernetes.Interface
	dir    string
}

var _ controller.Provisioner = (*volumes)(nil)

// Provision makes a directory for the claim on the node that the scheduler chose.
// The directory is as large as the disk: requests are not enforced.
func (p *volumes) Provision(ctx context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	if err := supported(o); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	node, err := p.client.CoreV1().Nodes().Get(ctx, o.SelectedNodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, controller.ProvisioningReschedule, fmt.Errorf("node %s is gone", o.SelectedNodeName)
	}
	if err != nil {
		return nil, controller.ProvisioningNoChange, err
	}
	host := node.Labels[v1.LabelHostname]
	if host == "" {
		return nil, controller.ProvisioningReschedule, fmt.Errorf("node %s has no label %s to bind the volume to", node.Name, v1.LabelHostname)
	}
	if err := p.makeDir(node.Name, o.PVName); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("make the volume's directory: %w", err)
	}
	return p.volume(o, node.Name, host), controller.ProvisioningFinished, nil
}

// supported says what a claim or its class asks for that a directory cannot do.
func supported(o controller.ProvisionOptions) error {
	claim := o.PVC.Spec
	for _, mode := range claim.AccessModes {
		if mode != v1.ReadWriteOnce && mode != v1.ReadWriteOncePod {
			return fmt.Errorf("access mode %s: a volume of %s is a directory of one node; use %s", mode, Provisioner, v1.ReadWriteOnce)
		}
	}
	switch {
	case o.SelectedNodeName == "":
		return fmt.Errorf("storage class %s: a volume of %s is bound to a node; use volumeBindingMode WaitForFirstConsumer", o.StorageClass.Name, Provisioner)
	case claim.VolumeMode != nil && *claim.VolumeMode != v1.PersistentVolumeFilesystem:
		return fmt.Errorf("volume mode %s: only %s can be had", *claim.VolumeMode, v1.PersistentVolumeFilesystem)
	case claim.Selector != nil:
		return errors.New("spec.selector: volumes are made for the claim, there are none to select from")
	case claim.DataSource != nil || claim.DataSourceRef != nil:
		return errors.New("spec.dataSource: volumes begin empty; neither clones nor snapshots can be had")
	case len(o.StorageClass.Parameters) > 0:
		return fmt.Errorf("storage class %s: there are no parameters", o.StorageClass.Name)
	case len(o.StorageClass.MountOptions) > 0:
		return fmt.Errorf("storage class %s: mountOptions: a directory is not mounted", o.StorageClass.Name)
	}
	return nil
}

// makeDir makes the directory, open to any user: containers run as whom they
// like, and the kubelet changes no owner of a hostPath.
func (p *volumes) makeDir(node, name string) error {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Mkdir(node, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	at := filepath.Join(node, name)
	if err := root.Mkdir(at, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return root.Chmod(at, 0o777) // the umask had its say
}

func (p *volumes) volume(o controller.ProvisionOptions, node, host string) *v1.PersistentVolume {
	kind := v1.HostPathDirectoryOrCreate
	mode := v1.PersistentVolumeFilesystem
	reclaim := v1.PersistentVolumeReclaimDelete
	if o.StorageClass.ReclaimPolicy != nil {
		reclaim = *o.StorageClass.ReclaimPolicy
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: v1.PersistentVolumeSpec{
			AccessModes:                   slices.Clone(o.PVC.Spec.AccessModes),
			Capacity:                      v1.ResourceList{v1.ResourceStorage: o.PVC.Spec.Resources.Requests[v1.ResourceStorage]},
			PersistentVolumeReclaimPolicy: reclaim,
			VolumeMode:                    &mode,
			PersistentVolumeSource: v1.PersistentVolumeSource{
				HostPath: &v1.HostPathVolumeSource{Path: filepath.Join(p.dir, node, o.PVName), Type: &kind},
			},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{host}}},
			}}}},
		},
	}
}

// Delete removes the volume's directory, and nothing that is not one of ours: the
// volume could have been edited.
func (p *volumes) Delete(_ context.Context, pv *v1.PersistentVolume) error {
	if pv.Spec.HostPath == nil {
		return fmt.Errorf("volume %s: not a directory", pv.Name)
	}
	rel, err := filepath.Rel(p.dir, pv.Spec.HostPath.Path)
	if err != nil {
		return err
	}
	node, name, ok := strings.Cut(rel, string(filepath.Separator))
	if !ok || node == ".." || name != pv.Name {
		return fmt.Errorf("volume %s: %s is no directory made for it below %s", pv.Name, pv.Spec.HostPath.Path, p.dir)
	}
	root, err := os.OpenRoot(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(rel)
}
