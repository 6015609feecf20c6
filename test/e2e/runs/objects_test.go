package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// passing are objects that come and go by themselves.
var passing = []string{"events", "leases"}

// everything is each object of the cluster, of whatever kind: its UID, and for those of others that nobody but a run
// would write to, its version.
func (o *cluster) everything(t *testing.T) map[string]string {
	t.Helper()
	found, err := o.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (o *cluster) list(ctx context.Context) (map[string]string, error) {
	kinds, err := o.client.Discovery().ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	kinds = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, kinds)
	client, err := dynamic.NewForConfig(o.config)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, kind := range group.APIResources {
			if slices.Contains(passing, kind.Name) {
				continue
			}
			list, err := client.Resource(version.WithResource(kind.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", kind.Name, err)
			}
			for _, x := range list.Items {
				state := string(x.GetUID())
				if x.GetName() == "theirs" || kind.Name == "namespaces" {
					state += " version " + x.GetResourceVersion()
				}
				if kind.Name == "nodes" {
					state += fmt.Sprint(x.GetLabels(), x.GetAnnotations(), x.Object["spec"])
				}
				out[strings.Join([]string{kind.Name, x.GetNamespace(), x.GetName()}, "/")] = state
			}
		}
	}
	return out, nil
}

// unchanged waits until everything is as it was: what was deleted takes a moment to go.
func (o *cluster) unchanged(t *testing.T, before map[string]string) {
	t.Helper()
	var diff string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		now, err := o.list(t.Context())
		if err != nil {
			diff = err.Error()
			continue
		}
		if diff = cmp.Diff(before, now); diff == "" {
			return
		}
	}
	t.Errorf("the cluster is not as it was before the run:\n%s", diff)
}
