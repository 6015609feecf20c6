package helm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Object is one rendered Kubernetes object.
type Object = unstructured.Unstructured

// Render gives the objects of a release as they would be applied, hooks among them, without touching a cluster.
// kubeVersion is what charts see as the cluster's, like v1.36.3; empty is Helm's own.
func Render(c *chart.Chart, name, namespace, kubeVersion string, values Values) ([]Object, error) {
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return nil, fmt.Errorf("render %s: %w", c.Name(), err)
	}
	caps := common.DefaultCapabilities.Copy()
	if kubeVersion != "" {
		v, err := common.ParseKubeVersion(kubeVersion)
		if err != nil {
			return nil, fmt.Errorf("render %s: Kubernetes version %q: %w", c.Name(), kubeVersion, err)
		}
		caps.KubeVersion = *v
	}
	release := common.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, values, release, caps)
	if err != nil {
		return nil, fmt.Errorf("values of %s: %w%s", c.Name(), err, valueHint(err))
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w%s", c.Name(), err, valueHint(err))
	}
	return objects(files)
}

// valueHint says what to do about a chart that wants other values.
func valueHint(err error) string {
	text := strings.ToLower(err.Error())
	for _, sign := range []string{"is required", "must be", "required", "don't meet the specifications", "execution error"} {
		if strings.Contains(text, sign) {
			return " (the chart wants it among its values: give it in spec.teleport.from.values; helm show values tells what there is)"
		}
	}
	return ""
}

func objects(files map[string]string) ([]Object, error) {
	names := make([]string, 0, len(files))
	for name := range files {
		if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []Object
	for _, name := range names {
		more, err := decode([]byte(files[name]))
		if err != nil {
			return nil, fmt.Errorf("%s renders no valid YAML: %w", name, err)
		}
		out = append(out, more...)
	}
	return out, nil
}

// decode reads a stream of documents; empty ones are passed over.
func decode(text []byte) ([]Object, error) {
	var out []Object
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := Object{}
		switch err := d.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}
