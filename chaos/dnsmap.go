package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

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
	if _, err := d.serviceOfDNS(ctx); err != nil {
		return err
	}
	if lacks := d.lacks(ctx); len(lacks) > 0 {
		return fmt.Errorf("the cluster's CoreDNS was built without the plugin %s", strings.Join(lacks, " and without "))
	}
	return nil
}

// lacks are the plugins of those that the fault needs which this CoreDNS does not have: with a configuration that names
// them it would go on with its old one. Who cannot be asked lacks nothing.
func (d mappedDNS) lacks(ctx context.Context) []string {
	list, err := d.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-dns", FieldSelector: "status.phase=Running"})
	if err != nil || len(list.Items) == 0 {
		return nil
	}
	there := d.World
	there.Namespace = metav1.NamespaceSystem
	ctx, cancel := context.WithTimeout(ctx, askPlugins)
	defer cancel()
	for _, program := range []string{"/coredns", "coredns"} { // the first is where its own image has it
		said, err := there.exec(ctx, list.Items[0].Name, list.Items[0].Spec.Containers[0].Name, program, "-plugins")
		if err == nil {
			return without(said, pluginsFor(d.Do.Args.String("answer")))
		}
	}
	return nil
}

const askPlugins = 10 * time.Second

// pluginsFor are the plugins of CoreDNS that an answer is made with, besides reload.
func pluginsFor(answer string) []string {
	switch answer {
	case "timeout":
		return []string{"view", "acl"}
	case "stale":
		return []string{"view", "hosts"}
	}
	return []string{"view", "template"}
}

// without are those plugins that `coredns -plugins` does not list, each there as "dns.NAME" in a line of its own.
func without(listing string, plugins []string) []string {
	has := strings.Fields(listing)
	if !slices.Contains(has, "dns.kubernetes") {
		return nil // not the list that it should be
	}
	return slices.DeleteFunc(plugins, func(p string) bool { return slices.Contains(has, "dns."+p) })
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
