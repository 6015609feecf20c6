package boot

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// objects are what an installer of Kubernetes adds: roles of components that
// Kubernetes does not know by itself, and the Service of the cluster's DNS.
//
//go:embed objects.yaml
var objects []byte

// resources maps the kinds in objects.yaml to where the API serves them, so
// that no discovery is needed while the cluster starts.
var resources = map[string]schema.GroupVersionResource{
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"Service":            {Version: "v1", Resource: "services"},
	"EndpointSlice":      {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
}

// createObjects creates what is not there yet.
func createObjects(ctx context.Context) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfigPath("admin"))
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = 100, 200
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(objects), 4096)
	for {
		var o unstructured.Unstructured
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("objects.yaml: %w", err)
		}
		if err := create(ctx, client, &o); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
}

func create(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) error {
	gvr, ok := resources[o.GetKind()]
	if !ok {
		return fmt.Errorf("no resource for kind %q", o.GetKind())
	}
	var into dynamic.ResourceInterface = client.Resource(gvr)
	if ns := o.GetNamespace(); ns != "" {
		into = client.Resource(gvr).Namespace(ns)
	}
	_, err := into.Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
