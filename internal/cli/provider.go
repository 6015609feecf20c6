package cli

import (
	"context"
	"errors"
	"os/exec"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/clusters/embedded"
	"shakedown.dev/shakedown/clusters/existing"
	"shakedown.dev/shakedown/clusters/kind"
)

// The providers, as --cluster names them.
const (
	onEmbedded = "embedded"
	onKind     = kind.ProviderName
	onExisting = existing.ProviderName
)

// The values of --reach.
const (
	reachForward = "port-forward"
	reachDirect  = "direct"
	reachGateway = "gateway"
)

// where says which provider a verb works with, and what that one needs to be told.
type where struct {
	provider   string
	nodeImage  string // kind
	kindConfig string
	kubeconfig string // existing
	context    string
	reach      string
	loadImage  string
}

// flags adds those of all providers to a verb that makes clusters.
func (w *where) flags(flags *pflag.FlagSet) {
	flags.StringVar(&w.provider, "cluster", onEmbedded, "where to run: embedded, kind or existing")
	flags.StringVar(&w.nodeImage, "node-image", "", "kind: `IMAGE` of the nodes: a name, a version of Kubernetes (v1.36.3) or an archive (default: kind's own)")
	flags.StringVar(&w.kindConfig, "kind-config", "", "kind: `FILE` with a configuration of kind's own, to be completed")
	flags.StringVar(&w.kubeconfig, "kubeconfig", "", "existing: `FILE` that says how to reach the cluster (default: $KUBECONFIG, ~/.kube/config)")
	flags.StringVar(&w.context, "context", "", "existing: `NAME` of the context in it, which must be typed out")
	flags.StringVar(&w.reach, "reach", reachForward, "existing: how load gets to pods: port-forward, each connection through the API server; gateway, by a pod that dials for all of them; or direct, if this machine has a route to them")
	flags.StringVar(&w.loadImage, "load-image", "", "existing, with --reach gateway: `IMAGE` of this program, its entrypoint, that the cluster's nodes can pull")
}

// valid is about what can be said without looking anywhere.
func (w *where) valid() error {
	switch w.provider {
	case onEmbedded, onKind:
	case onExisting:
		if w.context == "" {
			return usage("--cluster existing: type out the context with --context: the current one may not be the one you mean")
		}
	default:
		return usage("--cluster %s: want embedded, kind or existing", w.provider)
	}
	for flag, set := range map[string]bool{"node-image": w.nodeImage != "", "kind-config": w.kindConfig != ""} {
		if set && w.provider != onKind {
			return usage("--%s is for --cluster kind", flag)
		}
	}
	if w.reach != "" && w.reach != reachForward && w.reach != reachDirect && w.reach != reachGateway {
		return usage("--reach %s: want port-forward, gateway or direct", w.reach)
	}
	if w.reach != "" && w.reach != reachForward && w.provider != onExisting {
		return usage("--reach is for --cluster existing")
	}
	if (w.reach == reachGateway) != (w.loadImage != "") {
		return usage("--reach gateway and --load-image go together: the gateway is a pod of that image")
	}
	if w.context != "" && w.provider != onExisting {
		return usage("--context is for --cluster existing")
	}
	return nil
}

// open is the provider itself.
func (a *app) open(w where, watch func(clusters.Step), logs string) clusters.Provider {
	switch w.provider {
	case onKind:
		return &kind.Provider{NodeImage: w.nodeImage, Config: w.kindConfig, LogsDir: logs, Progress: watch, Log: a.log}
	case onExisting:
		return &existing.Provider{Kubeconfig: w.kubeconfig, Context: w.context, Direct: w.reach == reachDirect, Gateway: w.loadImage, Log: a.log}
	}
	return &embedded.Provider{Progress: watch, Log: a.log}
}

// owned are the providers whose clusters are ours, on this machine: of the named one, or of all that work here.
func (a *app) owned(ctx context.Context, name string) []clusters.Provider {
	all := []clusters.Provider{}
	if name == "" || name == onEmbedded {
		all = append(all, a.open(where{provider: onEmbedded}, nil, ""))
	}
	if name == onKind || name == "" && hasDocker(ctx) {
		all = append(all, a.open(where{provider: onKind}, nil, ""))
	}
	return all
}

// hasDocker says whether it is worth asking kind: without Docker there are no clusters of it.
func hasDocker(ctx context.Context) bool {
	if _, err := exec.LookPath("docker"); err != nil {
		return false
	}
	return exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}").Run() == nil
}

// ours lists the clusters that are ours.
func (a *app) ours(ctx context.Context, provider string) (map[clusters.Provider][]clusters.Cluster, error) {
	out := map[clusters.Provider][]clusters.Cluster{}
	var errs []error
	for _, p := range a.owned(ctx, provider) {
		some, err := p.List(ctx)
		if errors.Is(err, clusters.ErrUnsupported) && provider == "" {
			continue // this machine has none of that kind
		}
		errs = append(errs, err)
		out[p] = some
	}
	return out, errors.Join(errs...)
}

// clusterFlag adds --cluster to a verb that works on clusters that are up.
func clusterFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("cluster", "", "of which provider: embedded or kind (default: both)")
}
