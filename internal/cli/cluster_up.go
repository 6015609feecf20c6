package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
)

// upOptions are the flags of cluster up.
type upOptions struct {
	where
	spec       clusters.Spec
	images     []string
	labels     map[string]string
	file       string
	foreground bool
}

func (a *app) clusterUp() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring a cluster up, or find it up already",
		Example: "  shakedown cluster up\n" +
			"  shakedown cluster up --nodes 5 --kubeconfig dev.kubeconfig\n" +
			"  shakedown cluster up --image teleport:dev=host:./build",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runUp(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.provider, "cluster", onEmbedded, "what to make: embedded or kind")
	flags.StringVar(&o.nodeImage, "node-image", "", "kind: `IMAGE` of the nodes: a name, a version of Kubernetes (v1.36.3) or an archive (default: kind's own)")
	flags.StringVar(&o.kindConfig, "kind-config", "", "kind: `FILE` with a configuration of kind's own, to be completed")
	flags.StringVar(&o.spec.Name, "name", clusters.DefaultName, "name of the cluster")
	flags.IntVar(&o.spec.Nodes, "nodes", 3, "number of nodes")
	flags.IntVar(&o.spec.HollowNodes, "hollow-nodes", 0, "number of further nodes that only pretend to run pods, tainted")
	flags.DurationVar(&o.spec.NodeMonitorGrace, "node-monitor-grace", 40*time.Second, "how long a silent node is believed alive")
	flags.IntVar(&o.spec.APIPort, "api-port", 0, "port of the API server on 127.0.0.1; 0 is any free one")
	flags.StringArrayVar(&o.images, "image", nil, "image for the pods as `NAME=SOURCE`: host:DIR, an archive, an OCI layout or a registry reference; repeatable")
	flags.StringToStringVar(&o.labels, "label", nil, "label of the cluster, `KEY=VALUE`")
	flags.StringVar(&o.file, "kubeconfig", "", "write a kubeconfig to this `FILE`, mode 0600")
	flags.BoolVar(&o.foreground, "foreground", false, "stay, and take the cluster down with this command")
	return cmd
}

func (a *app) runUp(ctx context.Context, o upOptions) error {
	for _, text := range o.images {
		image, err := clusters.ParseImage(text)
		if err != nil {
			return usage("%w", err)
		}
		o.spec.Images = append(o.spec.Images, image)
	}
	if o.provider != onEmbedded && o.provider != onKind {
		return usage("--cluster %s: want embedded or kind", o.provider)
	}
	if err := o.valid(); err != nil {
		return err
	}
	if o.provider == onKind && o.foreground {
		return usage("--foreground: a kind cluster hangs on no process; take it down with shakedown cluster down")
	}
	o.spec.Labels = o.labels
	o.spec.Detach = !o.foreground
	if err := o.spec.Validate(); err != nil {
		return usage("%w", err)
	}
	began := time.Now()
	c, err := a.bringUp(ctx, o.where, o.spec)
	if err != nil {
		return err
	}
	if err := a.announceUp(ctx, c, o, time.Since(began)); err != nil {
		return err
	}
	if o.foreground {
		return a.holdUp(ctx, o.where, c)
	}
	return nil
}

// bringUp shows the progress of Provider.Up.
func (a *app) bringUp(ctx context.Context, w where, spec clusters.Spec) (clusters.Cluster, error) {
	a.talk("Bringing up cluster %s …", spec.Name)
	watch := a.watch()
	defer watch.Close()
	return a.open(w, watch.Step, "").Up(ctx, spec)
}

func (a *app) announceUp(ctx context.Context, c clusters.Cluster, o upOptions, took time.Duration) error {
	facts, err := c.Facts(ctx)
	if err != nil {
		return err
	}
	if o.file != "" {
		if err := writeKubeconfig(ctx, c, o.file); err != nil {
			return err
		}
	}
	return a.print(facts, func(w io.Writer) { describeUp(w, facts, o, took) })
}

// describeUp says what there is and how it is used.
func describeUp(w io.Writer, facts clusters.Facts, o upOptions, took time.Duration) {
	fmt.Fprintf(w, "Cluster %s is up: %s, Kubernetes %s, %.1fs.\n", facts.Name, plural(len(facts.Nodes), "node"), facts.Version, took.Seconds())
	if !facts.Limits.Hold {
		fmt.Fprintf(w, "Memory and CPU limits of containers do not hold here: %s.\n", facts.Limits.Why)
	}
	name, file := "", o.file
	if facts.Name != clusters.DefaultName {
		name = " --name " + facts.Name
	}
	fmt.Fprintln(w)
	if file == "" {
		file = facts.Name + ".kubeconfig"
		fmt.Fprintf(w, "  shakedown cluster kubeconfig%s --file %s\n", name, file)
	}
	fmt.Fprintf(w, "  kubectl --kubeconfig %s get nodes\n", file)
	fmt.Fprintf(w, "  shakedown cluster shell%s    # where pods and Services have their own addresses\n", name)
	if !o.foreground {
		fmt.Fprintf(w, "  shakedown cluster down%s\n", name)
	}
}

// holdUp waits for the end of the cluster or of this command.
func (a *app) holdUp(ctx context.Context, w where, c clusters.Cluster) error {
	owner, ok := c.(clusters.Owner)
	if !ok || owner.Done() == nil {
		return exit.Hint(usage("cluster %s was up already: it cannot be held in the foreground", c.Name()),
			"shakedown cluster down ends it")
	}
	a.talk("Ctrl-C takes it down.")
	select {
	case <-owner.Done():
		return fmt.Errorf("cluster %s has ended", c.Name())
	case <-ctx.Done():
	}
	// The end was asked for, so it must not be cut short by what asked for it.
	if err := a.open(w, nil, "").Down(context.WithoutCancel(ctx), c.Name()); err != nil {
		return err
	}
	a.talk("Cluster %s is gone.", c.Name())
	return context.Cause(ctx)
}
