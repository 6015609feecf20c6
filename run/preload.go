package run

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/lab"
)

// preload tells a cluster whose nodes must be given images which ones the run's charts name, before they need them.
func (s *system) preload(ctx context.Context) error {
	loader, ok := s.cluster.(clusters.Preloader)
	if !ok {
		return nil
	}
	facts, err := s.cluster.Facts(ctx)
	if err != nil {
		return err
	}
	releases := []scenarios.Release{s.plan.Teleport.From}
	if s.plan.Teleport.To != nil {
		releases = append(releases, *s.plan.Teleport.To)
	}
	var names []string
	for _, r := range releases {
		c, err := helm.Ref{Chart: r.Chart, Version: r.Version}.Load(ctx, s.charts)
		if err != nil {
			return err
		}
		values, _ := lab.Fill(s.facts, r.Values)
		objects, err := helm.Render(c, s.plan.Teleport.Release, s.plan.Teleport.Namespace, facts.Version, values)
		if err != nil {
			return err
		}
		for _, o := range objects {
			names = append(names, imagesIn(o)...)
		}
	}
	more, err := s.agentImages(ctx, facts.Version, names)
	slices.Sort(names)
	return errors.Join(err, loader.Preload(ctx, slices.Compact(append(names, more...))))
}

// agentImages are those of the agents: of their chart, or the auths' where the system under test is a real one.
func (s *system) agentImages(ctx context.Context, kubernetes string, of []string) ([]string, error) {
	if !s.facts.Standin {
		return nil, nil // the agents run the auths' image, which is among the others
	}
	c, err := helm.Ref{Chart: helm.Agents}.Load(ctx, s.charts)
	if err != nil {
		return nil, err
	}
	t := s.plan.Teleport
	var names []string
	objects, err := helm.Render(c, agentsRelease, t.Namespace, kubernetes, s.fleet(t.Agents.Pods, t.Agents.PerPod, false).Values(s.facts))
	for _, o := range objects {
		for _, name := range imagesIn(o) {
			if !slices.Contains(of, name) {
				names = append(names, name)
			}
		}
	}
	return names, err
}

// imagesIn are the images of an object's containers, of whatever kind it is.
func imagesIn(o helm.Object) []string {
	paths := [][]string{{"spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}}
	var names []string
	for _, path := range paths {
		for _, list := range []string{"initContainers", "containers"} {
			containers, _, err := unstructured.NestedSlice(o.Object, append(slices.Clone(path), list)...)
			if err != nil {
				continue
			}
			for _, c := range containers {
				if fields, ok := c.(map[string]any); ok {
					if name, ok := fields["image"].(string); ok {
						names = append(names, name)
					}
				}
			}
		}
	}
	return names
}
