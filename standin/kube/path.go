package kube

import (
	"path"
	"strings"

	"github.com/gravitational/teleport/api/types/events"
)

// resource is what a request path of the Kubernetes API names. An empty kind is discovery or no API path.
type resource struct {
	group, namespace, kind, name string
	sub                          string // what follows the name
}

// parsePath reads /api/v1/… and /apis/GROUP/VERSION/…, namespaced or not, with or without /watch.
func parsePath(p string) resource {
	parts := strings.Split(strings.Trim(path.Clean("/"+p), "/"), "/")
	var r resource
	switch {
	case len(parts) >= 2 && parts[0] == "api" && parts[1] == "v1":
		r.group, parts = "core/v1", parts[2:]
	case len(parts) >= 3 && parts[0] == "apis":
		r.group, parts = parts[1]+"/"+parts[2], parts[3:]
	default:
		return r
	}
	if len(parts) > 0 && parts[0] == "watch" {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		r.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		r.kind = parts[0]
	}
	if len(parts) > 1 {
		r.name = parts[1]
	}
	if len(parts) > 2 {
		r.sub = strings.Join(parts[2:], "/")
		r.kind += "/" + r.sub
	}
	return r
}

// isDiscovery is what the real program leaves out of the audit log.
func isDiscovery(p string, r resource) bool {
	return r.kind == "" && (p == "/api" || p == "/apis" || strings.HasPrefix(p, "/api/") || strings.HasPrefix(p, "/apis/"))
}

func (r resource) fill(e *events.KubeRequest) {
	e.ResourceAPIGroup, e.ResourceNamespace, e.ResourceKind, e.ResourceName = r.group, r.namespace, r.kind, r.name
}
