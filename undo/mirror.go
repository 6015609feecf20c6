package undo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// roleLabel with roleUndo marks the ConfigMaps that hold intents.
const (
	roleLabel = "shakedown.dev/role"
	roleUndo  = "undo"
)

// ConfigMaps is the Mirror in the cluster: one ConfigMap a run, one key an intent that is not undone.
type ConfigMaps struct {
	Client    kubernetes.Interface
	Namespace string
}

func mirrorName(run string) string { return "shakedown-undo-" + run }

// Put adds the intent, and makes the ConfigMap if there is none.
func (m ConfigMaps) Put(ctx context.Context, e Entry) error {
	value, err := json.Marshal(e)
	if err != nil {
		return err
	}
	err = m.patch(ctx, e, string(value))
	if !apierrors.IsNotFound(err) {
		return err
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: mirrorName(e.Run), Namespace: m.Namespace,
			Labels: map[string]string{RunLabel: e.Run, roleLabel: roleUndo},
		},
		Data: map[string]string{key(e): string(value)},
	}
	if _, err = m.Client.CoreV1().ConfigMaps(m.Namespace).Create(ctx, cm, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		return m.patch(ctx, e, string(value)) // another goroutine was first
	}
	return err
}

// Drop takes the intent out, and the ConfigMap with the last one.
func (m ConfigMaps) Drop(ctx context.Context, e Entry) error {
	if err := m.patch(ctx, e, nil); err != nil {
		return ignoreNotFound(err)
	}
	return m.Clean(ctx, e.Run)
}

// Clean takes the ConfigMap away if it holds no intents.
func (m ConfigMaps) Clean(ctx context.Context, run string) error {
	maps := m.Client.CoreV1().ConfigMaps(m.Namespace)
	cm, err := maps.Get(ctx, mirrorName(run), metav1.GetOptions{})
	if err != nil || len(cm.Data) > 0 {
		return ignoreNotFound(err)
	}
	// An intent that comes in between changes the version, and the ConfigMap stays.
	same := metav1.Preconditions{UID: &cm.UID, ResourceVersion: &cm.ResourceVersion}
	err = maps.Delete(ctx, cm.Name, metav1.DeleteOptions{Preconditions: &same})
	if apierrors.IsConflict(err) {
		return nil
	}
	return ignoreNotFound(err)
}

func (m ConfigMaps) patch(ctx context.Context, e Entry, value any) error {
	data, err := json.Marshal(map[string]any{"data": map[string]any{key(e): value}})
	if err != nil {
		return err
	}
	_, err = m.Client.CoreV1().ConfigMaps(m.Namespace).Patch(ctx, mirrorName(e.Run), types.MergePatchType, data, metav1.PatchOptions{})
	return err
}

func key(e Entry) string { return fmt.Sprintf("intent-%06d", e.ID) }

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Runs lists the runs that left intents in the cluster, in the order of their names.
func Runs(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	list, err := mirrors(ctx, client, roleLabel+"="+roleUndo)
	if err != nil {
		return nil, err
	}
	var runs []string
	for _, cm := range list {
		runs = append(runs, cm.Labels[RunLabel])
	}
	slices.Sort(runs)
	return slices.Compact(runs), nil
}

// FromCluster is the log of a run as the cluster has it, for when the run folder is lost. A run that left
// nothing gives a log without entries.
func FromCluster(ctx context.Context, client kubernetes.Interface, run string) (*Log, error) {
	list, err := mirrors(ctx, client, roleLabel+"="+roleUndo+","+RunLabel+"="+run)
	if err != nil {
		return nil, err
	}
	l := &Log{head: Head{Run: run}}
	for _, cm := range list {
		l.head.Namespace = cm.Namespace
		l.mirror = ConfigMaps{client, cm.Namespace}
		for _, name := range sortedKeys(cm.Data) {
			var e Entry
			if err := json.Unmarshal([]byte(cm.Data[name]), &e); err != nil {
				return nil, fmt.Errorf("ConfigMap %s/%s, %s: %w", cm.Namespace, cm.Name, name, err)
			}
			l.entries = append(l.entries, e)
		}
	}
	slices.SortFunc(l.entries, func(a, b Entry) int { return a.ID - b.ID })
	return l, nil
}

func mirrors(ctx context.Context, client kubernetes.Interface, selector string) ([]corev1.ConfigMap, error) {
	list, err := client.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("look for what runs left in the cluster: %w", err)
	}
	return list.Items, nil
}

// ClusterID tells a cluster from another of the same name: the UID of its kube-system namespace.
func ClusterID(ctx context.Context, client kubernetes.Interface) (string, error) {
	ns, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("look at namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(ns.UID), nil
}
