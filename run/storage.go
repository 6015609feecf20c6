package run

import (
	"context"
	"fmt"

	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/etcd"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/lab"
)

// etcdImage is that of etcd where the cluster does not have one built in.
const etcdImage = "registry.k8s.io/etcd:3.6.5-0"

// needsStorage decides whether several auths of a real Teleport are to be given an etcd to share: unless the author
// says where they store. The stand-in's chart has its own.
func (s *system) needsStorage(runID string) error {
	author := s.plan.Teleport.From.Values
	if s.facts.Standin || lab.Auths(author) <= 1 {
		return nil
	}
	if _, said := helm.Get(author, "auth", "teleportConfig", "teleport", "storage"); said {
		return nil
	}
	if mode, said := helm.Get(author, "chartMode"); said && mode != "standalone" && mode != "scratch" {
		return nil // a cloud's own
	}
	token, err := lab.NewToken()
	if err != nil {
		return err
	}
	s.etcd = &etcd.Etcd{Namespace: s.plan.Teleport.Namespace, Run: runID, ProxyToken: token}
	if s.plan.Facts.Provider != "embedded" {
		s.etcd.Image = etcdImage
	}
	return nil
}

// bringStorage starts the etcd, in a namespace that exists, if one is needed.
func (s *system) bringStorage(ctx context.Context) error {
	if s.etcd == nil {
		return nil
	}
	if err := s.etcd.Ensure(ctx, s.client); err != nil {
		return fmt.Errorf("storage for several auths: %w", err)
	}
	return nil
}

// fill completes the author's values of a release.
func (s *system) fill(r scenarios.Release) (helm.Values, []lab.Default) {
	values := helm.Values(r.Values)
	if s.etcd != nil {
		values = helm.Merge(s.etcd.Values(), values)
	}
	filled, added := lab.Fill(s.facts, values)
	if s.etcd != nil {
		added = append(added, lab.Default{Path: "auth.teleportConfig.teleport.storage", Value: "an etcd, brought by the run",
			Reason: "several auths need storage that they share; their audit logs and recordings stay on their own disks"})
	}
	return filled, added
}
