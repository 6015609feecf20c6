package chaos

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/undo"
)

// unparsable is no YAML: a mapping in a sequence that is not closed.
const unparsable = "shakedown: [ {\n"

// copyConfig makes a ConfigMap like one that the pods mount, whose YAML files do not parse. The one of the
// chart stays as it is: pods that are there would read it, and Helm would find it changed.
func (k *stuck) copyConfig(ctx context.Context) error {
	maps := k.site.Client.CoreV1().ConfigMaps(k.owner.namespace)
	for i, v := range k.before.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		m, err := maps.Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("look at ConfigMap %s: %w", v.ConfigMap.Name, err)
		}
		if !spoilYAML(m.Data) {
			continue
		}
		k.volume, k.config = i, objectName("config", k.site)
		made := &corev1.ConfigMap{Data: m.Data, BinaryData: m.BinaryData, ObjectMeta: metav1.ObjectMeta{
			Name: k.config, Namespace: m.Namespace, Labels: map[string]string{undo.RunLabel: k.site.Run}}}
		change := undo.Change{Kind: undo.ObjectCreated, What: "copy ConfigMap " + m.Name + ", spoilt",
			Object: undo.Object{Resource: "v1/configmaps", Namespace: made.Namespace, Name: made.Name}}
		return k.site.Change(ctx, change, func(ctx context.Context) error {
			_, err := maps.Create(ctx, made, metav1.CreateOptions{})
			return err
		})
	}
	return errors.New("its pods mount no ConfigMap with a YAML file")
}

// spoilYAML makes every YAML file one that does not parse, and says whether there is any.
func spoilYAML(data map[string]string) (any bool) {
	for name, text := range data {
		if ext := path.Ext(name); ext == ".yaml" || ext == ".yml" {
			data[name], any = strings.TrimRight(text, "\n")+"\n"+unparsable, true
		}
	}
	return any
}

// ended is how a container ended last, nil if it has not yet, or did well.
func ended(c corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	for _, state := range []corev1.ContainerState{c.State, c.LastTerminationState} {
		if end := state.Terminated; end != nil && end.ExitCode != 0 {
			return end
		}
	}
	return nil
}
