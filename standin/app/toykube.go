package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// startToy serves just enough of a Kubernetes API for `kubectl get` in the demo:
// version, discovery, one namespace, two pods. Everything else is 404.
func (c *cluster) startToy(ctx context.Context) error {
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: toyKube(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(lis) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return c.write("toy-kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: toy, cluster: {server: "http://%s"}}]
users: [{name: toy, user: {}}]
contexts: [{name: toy, context: {cluster: toy, user: toy}}]
current-context: toy
`, lis.Addr()))
}

type object = map[string]any

func toyKube() http.Handler {
	resource := func(name, kind string, namespaced bool) object {
		return object{"name": name, "singularName": strings.TrimSuffix(name, "s"), "kind": kind, "namespaced": namespaced, "verbs": []string{"get", "list"}}
	}
	pod := func(name string) object {
		return object{"metadata": object{"name": name, "namespace": "default", "creationTimestamp": time.Now().UTC().Format(time.RFC3339)}, "spec": object{"containers": []object{{"name": "main"}}}, "status": object{"phase": "Running"}}
	}
	pods := object{"kind": "PodList", "apiVersion": "v1", "metadata": object{}, "items": []object{pod("toy-0"), pod("toy-1")}}
	answers := map[string]object{
		"/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0-toy", "platform": "linux/amd64"},
		"/api":     {"kind": "APIVersions", "versions": []string{"v1"}},
		"/apis":    {"kind": "APIGroupList", "apiVersion": "v1", "groups": []object{}},
		"/api/v1":  {"kind": "APIResourceList", "groupVersion": "v1", "resources": []object{resource("pods", "Pod", true), resource("namespaces", "Namespace", false)}},
		"/api/v1/namespaces": {"kind": "NamespaceList", "apiVersion": "v1", "metadata": object{}, "items": []object{
			{"metadata": object{"name": "default"}, "status": object{"phase": "Active"}},
		}},
		"/api/v1/pods":                    pods,
		"/api/v1/namespaces/default/pods": pods,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "the toy API server has no " + r.URL.Path}
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
}
