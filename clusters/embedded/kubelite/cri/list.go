package cri

import (
	"cmp"
	"context"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// selects says whether every label of the selector is there.
func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (r *Runtime) ListPodSandbox(_ context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*runtimeapi.PodSandbox
	for _, s := range r.sandboxes {
		if f.GetId() != "" && f.Id != s.id || f.GetState() != nil && f.State.State != s.state() || !selects(f.GetLabelSelector(), s.cfg.GetLabels()) {
			continue
		}
		out = append(out, &runtimeapi.PodSandbox{
			Id: s.id, Metadata: s.cfg.GetMetadata(), State: s.state(), CreatedAt: s.created.UnixNano(),
			Labels: s.cfg.GetLabels(), Annotations: s.cfg.GetAnnotations(),
		})
	}
	slices.SortFunc(out, func(a, b *runtimeapi.PodSandbox) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	return out, nil
}

func (r *Runtime) ListContainers(_ context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*runtimeapi.Container
	for _, c := range r.containers {
		if f.GetId() != "" && f.Id != c.id || f.GetPodSandboxId() != "" && f.PodSandboxId != c.sandbox.id ||
			f.GetState() != nil && f.State.State != c.state || !selects(f.GetLabelSelector(), c.cfg.GetLabels()) {
			continue
		}
		out = append(out, &runtimeapi.Container{
			Id: c.id, PodSandboxId: c.sandbox.id, Metadata: c.cfg.GetMetadata(), Image: c.imageSpec(),
			ImageRef: c.cfg.GetImage().GetImage(), ImageId: c.image.ID, State: c.state, CreatedAt: nanos(c.created),
			Labels: c.cfg.GetLabels(), Annotations: c.cfg.GetAnnotations(),
		})
	}
	slices.SortFunc(out, func(a, b *runtimeapi.Container) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	return out, nil
}
