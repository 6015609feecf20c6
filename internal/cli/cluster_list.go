package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"shakedown.dev/shakedown/clusters"
)

// answerLimit is how long a cluster may take to say how it is; one that starts or hangs takes longer.
const answerLimit = 5 * time.Second

// listed is a line of cluster list.
type listed struct {
	clusters.Facts
	Error string `json:"error,omitempty"` // why the facts are not known
}

func (a *app) clusterList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the clusters of this user",
		Args:  cobra.NoArgs,
	}
	provider := clusterFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.runList(cmd.Context(), *provider) }
	return cmd
}

func (a *app) runList(ctx context.Context, provider string) error {
	up, err := a.ours(ctx, provider)
	if err != nil {
		return err
	}
	lines := []listed{}
	for _, some := range up {
		for _, c := range some {
			lines = append(lines, ask(ctx, c))
		}
	}
	slices.SortFunc(lines, func(x, y listed) int {
		return cmp.Or(cmp.Compare(x.Provider, y.Provider), cmp.Compare(x.Name, y.Name))
	})
	if len(lines) == 0 && a.output == "text" {
		a.talk("No cluster is up.")
		return nil
	}
	return a.print(lines, func(w io.Writer) {
		fmt.Fprintln(w, "NAME\tPROVIDER\tNODES\tVERSION\tAPI SERVER\tAGE")
		for _, l := range lines {
			if l.Error != "" {
				fmt.Fprintf(w, "%s\t(%s)\n", l.Name, l.Error)
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.Provider, nodeSummary(l.Nodes), l.Version, l.APIServer,
				duration.HumanDuration(time.Since(l.Started)))
		}
	})
}

func ask(ctx context.Context, c clusters.Cluster) listed {
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %s", answerLimit))
	defer cancel()
	facts, err := c.Facts(ctx)
	if err != nil {
		return listed{Facts: clusters.Facts{Name: c.Name(), Owned: true}, Error: err.Error()}
	}
	return listed{Facts: facts}
}

// nodeSummary is "3", or "3 (1 killed)", or "3+500 hollow".
func nodeSummary(nodes []clusters.Node) string {
	count := map[clusters.NodeState]int{}
	real, hollow := 0, 0
	for _, n := range nodes {
		if n.Hollow {
			hollow++
			continue
		}
		real++
		count[n.State]++
	}
	text := fmt.Sprint(real)
	for _, state := range []clusters.NodeState{clusters.NodePaused, clusters.NodeKilled, clusters.NodePartitioned} {
		if count[state] > 0 {
			text += fmt.Sprintf(" (%d %s)", count[state], state)
		}
	}
	if hollow > 0 {
		text += fmt.Sprintf("+%d hollow", hollow)
	}
	return text
}
