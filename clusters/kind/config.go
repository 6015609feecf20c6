package kind

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"strings"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

// config is the author's file, or none, completed by what spec asks for: a control plane that takes no pods, and
// spec.Nodes workers, so that "three nodes" are three that pods run on, as everywhere.
func (p *Provider) config(spec clusters.Spec) (*v1alpha4.Cluster, error) {
	c := &v1alpha4.Cluster{}
	if p.Config != "" {
		text, err := os.ReadFile(p.Config)
		if err != nil {
			return nil, exit.With(exit.Usage, err)
		}
		if err := yaml.UnmarshalStrict(text, c); err != nil {
			return nil, exit.With(exit.Usage, fmt.Errorf("%s: %w", p.Config, err))
		}
		if c.Kind != "Cluster" || c.APIVersion != "kind.x-k8s.io/v1alpha4" {
			return nil, exit.With(exit.Usage, fmt.Errorf("%s: kind %q of %q: want kind Cluster of kind.x-k8s.io/v1alpha4", p.Config, c.Kind, c.APIVersion))
		}
	}
	if f := c.Networking.IPFamily; f != "" && f != v1alpha4.IPv4Family {
		return nil, exit.With(exit.Usage, fmt.Errorf("%s: networking.ipFamily %s: want ipv4, the gateway and partitions know no other", p.Config, f))
	}
	if err := nodes(c, spec, p.Config); err != nil {
		return nil, err
	}
	if spec.APIPort != 0 {
		c.Networking.APIServerPort = int32(spec.APIPort) //nolint:gosec // checked by Validate
	}
	if spec.NodeMonitorGrace != 0 {
		c.KubeadmConfigPatches = append(c.KubeadmConfigPatches, grace(spec)...)
	}
	v1alpha4.SetDefaultsCluster(c)
	return c, nil
}

// nodes are the file's own, if it has as many workers as are needed, or made.
func nodes(c *v1alpha4.Cluster, spec clusters.Spec, file string) error {
	if len(c.Nodes) == 0 {
		c.Nodes = append(c.Nodes, v1alpha4.Node{Role: v1alpha4.ControlPlaneRole})
	}
	workers := 0
	for i := range c.Nodes {
		if c.Nodes[i].Role == v1alpha4.WorkerRole {
			workers++
		}
	}
	if workers == 0 {
		for range spec.Nodes {
			c.Nodes = append(c.Nodes, v1alpha4.Node{Role: v1alpha4.WorkerRole})
		}
		return nil
	}
	if workers != spec.Nodes {
		return exit.With(exit.Usage, fmt.Errorf("%s has %d workers, and %d nodes are asked for: give it as many, or none", file, workers, spec.Nodes))
	}
	return nil
}

// grace patches both versions of kubeadm's configuration that kind may write; each applies to its own only.
// The newer one is a list, which a merge patch replaces whole: with the argument that kind itself sets.
func grace(spec clusters.Spec) []string {
	return []string{
		fmt.Sprintf("apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\ncontrollerManager: {extraArgs: {node-monitor-grace-period: %q}}\n", spec.NodeMonitorGrace),
		fmt.Sprintf("apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncontrollerManager: {extraArgs: [{name: enable-hostpath-provisioner, value: \"true\"}, {name: node-monitor-grace-period, value: %q}]}\n", spec.NodeMonitorGrace),
	}
}

var kubernetesVersion = regexp.MustCompile(`^v1\.\d+\.\d+$`)

// nodeImage settles the image of all nodes, and sees that Docker has it: the gateway's is the same. What the provider
// was told goes before what the file says; an archive is loaded first.
func (p *Provider) nodeImage(ctx context.Context, c *v1alpha4.Cluster) (string, error) {
	image, err := p.loadNodeImage(ctx)
	if err != nil {
		return "", err
	}
	if image != "" {
		for i := range c.Nodes {
			c.Nodes[i].Image = image
		}
	}
	image = c.Nodes[0].Image
	if _, err := docker(ctx, "image", "inspect", "--format", "{{.Id}}", image); err == nil {
		return image, nil
	}
	_, err = docker(ctx, "pull", "--quiet", image)
	return image, wrapf(err, "node image %s", image)
}

func (p *Provider) loadNodeImage(ctx context.Context) (string, error) {
	image := p.NodeImage
	if kubernetesVersion.MatchString(image) {
		return "kindest/node:" + image, nil
	}
	if info, err := os.Stat(image); image == "" || err != nil || !info.Mode().IsRegular() {
		return image, nil
	}
	file, err := os.Open(image)
	if err != nil {
		return "", err
	}
	defer file.Close()
	said, err := dockerIn(ctx, file, "load")
	if err != nil {
		return "", fmt.Errorf("node image %s: %w", image, err)
	}
	// "Loaded image: kindest/node:v1.36.3", or "Loaded image ID: sha256:…"
	_, name, ok := strings.Cut(said, ": ")
	if !ok {
		return "", fmt.Errorf("node image %s: docker load says %q", image, said)
	}
	return strings.TrimSpace(strings.Split(name, "\n")[0]), nil
}

// digest tells files of configuration apart; empty for none.
func digest(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", exit.With(exit.Usage, err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}

// otherNodes are the differences between the nodes that a cluster has and those that this provider makes, as far as it
// was told anything about them.
func (p *Provider) otherNodes(ctx context.Context, g *gateway) (differs []string, err error) {
	want, err := digest(p.Config)
	if err != nil {
		return nil, err
	}
	if p.Config != "" && want != g.config {
		differs = append(differs, "kind's configuration is not that of "+p.Config)
	}
	image, err := p.loadNodeImage(ctx)
	if image == "" || err != nil {
		return differs, err
	}
	// One that Docker does not have cannot be that of nodes that run.
	if id, err := docker(ctx, "image", "inspect", "--format", "{{.Id}}", image); err != nil || id != g.image.id {
		differs = append(differs, fmt.Sprintf("node image is %s, not %s", g.image.name, image))
	}
	return differs, nil
}

// sameShape is nil if a cluster that is up can be taken for what is wanted; differs are differences that are known
// already. Images are added, so they do not count.
func sameShape(have, want clusters.Spec, differs ...string) error {
	if have.Nodes != want.Nodes {
		differs = append(differs, fmt.Sprintf("nodes is %d, not %d", have.Nodes, want.Nodes))
	}
	if want.NodeMonitorGrace != 0 && have.NodeMonitorGrace != want.NodeMonitorGrace {
		differs = append(differs, fmt.Sprintf("node monitor grace is %s, not %s", have.NodeMonitorGrace, want.NodeMonitorGrace))
	}
	if len(differs) == 0 {
		return nil
	}
	err := &clusters.NameError{Name: want.Name, Err: fmt.Errorf("%w (%s)", clusters.ErrDifferent, strings.Join(differs, "; "))}
	return exit.Hint(exit.With(exit.Usage, err), "choose another name, or first run: shakedown cluster down --cluster kind --name "+want.Name)
}
