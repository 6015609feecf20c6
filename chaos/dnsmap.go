package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/undo"
)

// mappedDNS is a CoreDNS that reads its configuration from a ConfigMap, as kubeadm, kind and most managed
// clusters have it.
type mappedDNS struct{ *Site }

const corefile = "Corefile"

var reloads = regexp.MustCompile(`(?m)^\s*reload\b`)

func (d mappedDNS) available(ctx context.Context) error {
	if d.Cluster == nil {
		return errors.New("no way into the cluster's network, to ask its DNS")
	}
	m, err := d.configMap(ctx)
	switch {
	case err != nil:
		return err
	case !reloads.MatchString(m.Data[corefile]):
		return fmt.Errorf("ConfigMap %s has no %s with the plugin reload: a change would be read at its next start only", m.Name, corefile)
	case m.Annotations[undo.RunLabel] != "":
		return fmt.Errorf("ConfigMap %s is changed by run %s already", m.Name, m.Annotations[undo.RunLabel])
	}
	_, err = d.serviceOfDNS(ctx)
	return err
}

func (d mappedDNS) configMap(ctx context.Context) (*corev1.ConfigMap, error) {
	return d.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
}

func (d mappedDNS) change(ctx context.Context, block string) error {
	m, err := d.configMap(ctx)
	if err != nil {
		return err
	}
	if whose := m.Annotations[undo.RunLabel]; whose != "" {
		return fmt.Errorf("ConfigMap %s is changed by run %s already", m.Name, whose)
	}
	const mark = "/metadata/annotations/shakedown.dev~1run"
	back, err := json.Marshal([]map[string]any{
		{"op": "test", "path": mark, "value": d.Run},
		{"op": "replace", "path": "/data/" + corefile, "value": m.Data[corefile]},
		{"op": "remove", "path": mark},
	})
	if err != nil {
		return err
	}
	prior, err := json.Marshal(undo.Patched{Type: types.JSONPatchType, Back: back})
	if err != nil {
		return err
	}
	change := undo.Change{Kind: undo.ObjectChanged, What: "spoil the cluster's DNS", Prior: prior,
		Object: undo.Object{Resource: "v1/configmaps", Namespace: m.Namespace, Name: m.Name, UID: string(m.UID)}}
	return d.Change(ctx, change, func(ctx context.Context) error {
		m.Data[corefile] = ".:53 {\nreload\n" + block + "}\n" + m.Data[corefile]
		m.Annotations = with(m.Annotations, undo.RunLabel, d.Run)
		_, err := d.Client.CoreV1().ConfigMaps(m.Namespace).Update(ctx, m, metav1.UpdateOptions{})
		return err
	})
}

func (d mappedDNS) ask(ctx context.Context, name string) (answer, error) {
	svc, err := d.serviceOfDNS(ctx)
	if err != nil {
		return answer{}, err
	}
	return d.query(ctx, svc.Spec.ClusterIP, name)
}
