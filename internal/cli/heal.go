package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/run"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/undo"
)

// healing is one heal: whose changes, and where.
type healing struct {
	*app
	run        string // a run folder or a run's ID; empty: whatever the cluster holds
	name       string // of the cluster; empty: as the run's log says
	kubeconfig string
	context    string
}

func (a *app) heal() *cobra.Command {
	h := &healing{app: a}
	cmd := &cobra.Command{
		Use:   "heal [RUN]",
		Short: "Undo what a dead run left in a cluster",
		Long: "RUN is a run's folder, or its ID if the folder is lost: then the cluster alone tells what to undo. Without RUN\n" +
			"it is the one run that left something in the cluster. Changes are undone in the reverse of their order, and\n" +
			"each is verified. It may be done again at any time; a run that still goes on is not touched.",
		Example: "  shakedown heal runs/2026-01-01T00-00-00\n  shakedown heal --name dev",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				h.run = args[0]
			}
			return h.do(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&h.name, "name", "", "name of the embedded cluster (default: the run's, or "+clusters.DefaultName+")")
	cmd.Flags().StringVar(&h.kubeconfig, "kubeconfig", "", "file that says how to reach the cluster, if it is not an embedded one")
	cmd.Flags().StringVar(&h.context, "context", "", "context in the kubeconfig")
	return cmd
}

func (h *healing) do(ctx context.Context) error {
	if alone, err := h.untouched(ctx); alone || err != nil {
		return err
	}
	log, err := h.folder()
	if err != nil {
		return err
	}
	if log != nil && len(log.Pending()) == 0 {
		return errors.Join(h.tell(log.Head().Run, nil), log.Close(), h.clear(ctx, log.Head()))
	}
	in, err := h.reach(ctx, log)
	if errors.Is(err, clusters.ErrNotFound) && log != nil {
		gone := log.Heal(ctx, undo.Gone{Why: "the run's cluster is gone"})
		return errors.Join(h.tell(log.Head().Run, gone), log.Close())
	}
	if err != nil {
		return err
	}
	if log == nil {
		if log, err = h.fromCluster(ctx, in.Client); err != nil || log == nil {
			return err
		}
	} else if ns := log.Head().Namespace; ns != "" {
		log.SetMirror(undo.ConfigMaps{Client: in.Client, Namespace: ns})
	}
	results, err := undo.Heal(ctx, log, in)
	if head := log.Head(); head.Namespace != "" && len(undo.Failed(results)) == 0 {
		err = errors.Join(err, undo.Leave(ctx, in.Client, head.Namespace, head.Run))
	}
	return errors.Join(err, h.tell(log.Head().Run, results), log.Close(), h.clear(ctx, log.Head()))
}

// untouched is a run that died before it changed anything: its folder has no undo log yet, but it may have made a
// cluster. The result says whether the folder is such a one.
func (h *healing) untouched(ctx context.Context) (bool, error) {
	if _, err := os.Stat(filepath.Join(h.run, undo.FileName)); h.run == "" || !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	data, err := os.ReadFile(filepath.Join(h.run, envFile))
	if err != nil {
		return false, nil //nolint:nilerr // it is no run folder
	}
	var env run.Env
	if err := json.Unmarshal(data, &env); err != nil {
		return false, exit.With(exit.Usage, fmt.Errorf("%s: %w", filepath.Join(h.run, envFile), err))
	}
	return true, errors.Join(h.tell(env.Run, nil), h.takeDown(ctx, env.Provider, env.Run))
}

// clear takes away what was to end with the dead run: its cluster, or what it installed on one that stays.
func (h *healing) clear(ctx context.Context, run undo.Head) error {
	if h.kubeconfig != "" || h.context != "" || run.Provider == onExisting {
		config, err := h.existing(run)
		if err != nil {
			return err
		}
		return h.uninstall(ctx, run, config)
	}
	if err := h.takeDown(ctx, run.Provider, run.Run); err != nil || !run.Ephemeral {
		return err
	}
	// On a cluster of ours that the run had only borrowed.
	c, err := h.find(ctx, run.Cluster)
	if errors.Is(err, clusters.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	config, err := c.RESTConfig(ctx)
	if err != nil {
		return err
	}
	return h.uninstall(ctx, run, config)
}

// takeDown ends the clusters of a dead run that were to end with it, where the kernel did not see to that.
func (h *healing) takeDown(ctx context.Context, provider, run string) error {
	if provider != onKind {
		return nil
	}
	p := h.open(where{provider: onKind}, nil, "")
	up, err := p.List(ctx)
	if err != nil {
		return err
	}
	for _, c := range up {
		made, ok := c.(clusters.Ephemeral)
		if !ok {
			continue
		}
		if id, ephemeral := made.MadeFor(helm.RunLabel); id != run || !ephemeral {
			continue
		}
		if err := p.Down(ctx, c.Name()); err != nil {
			return err
		}
		h.talk("Cluster %s, which the run had made for itself, is gone.", c.Name())
	}
	return nil
}

// folder is the log in the run's folder; nil if RUN is not a folder.
func (h *healing) folder() (*undo.Log, error) {
	if h.run == "" {
		return nil, nil
	}
	info, err := os.Stat(h.run)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsRune(h.run, filepath.Separator) {
		return nil, nil // then it is an ID
	}
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	path := h.run
	if info.IsDir() {
		path = filepath.Join(path, undo.FileName)
	}
	log, err := undo.Open(path, nil)
	if errors.Is(err, undo.ErrLocked) {
		return nil, exit.Hint(err, "end it with Ctrl-C: it heals by itself")
	}
	return log, err
}

// reach finds the cluster. Without --kubeconfig it is an embedded one.
func (h *healing) reach(ctx context.Context, log *undo.Log) (undo.Cluster, error) {
	if h.kubeconfig != "" || h.context != "" || log != nil && log.Head().Provider == onExisting {
		head := undo.Head{}
		if log != nil {
			head = log.Head()
		}
		config, err := h.existing(head)
		if err != nil {
			return undo.Cluster{}, err
		}
		client, err := kubernetes.NewForConfig(config)
		return undo.Cluster{Client: client}, err
	}
	name := h.name
	if name == "" && log != nil {
		name = log.Head().Cluster
	}
	if name == "" {
		name = clusters.DefaultName
	}
	c, err := h.find(ctx, name)
	if err != nil {
		return undo.Cluster{}, err
	}
	config, err := c.RESTConfig(ctx)
	if err != nil {
		return undo.Cluster{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	return undo.Cluster{Client: client, Cluster: c}, err
}

// existing reaches a cluster that is not ours, by the context that is named here or that the run had.
func (h *healing) existing(run undo.Head) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = h.kubeconfig
	name := h.context
	if name == "" && run.Provider == onExisting {
		name = run.Cluster
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: name}).ClientConfig()
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("kubeconfig: %w", err))
	}
	return config, nil
}

// fromCluster is the log that the cluster holds of the run, or of the only one that left something. Nil if
// none did.
func (h *healing) fromCluster(ctx context.Context, client kubernetes.Interface) (*undo.Log, error) {
	runs, err := undo.Runs(ctx, client)
	if err != nil {
		return nil, err
	}
	switch {
	case h.run != "":
		return undo.FromCluster(ctx, client, h.run)
	case len(runs) == 0:
		return nil, h.tell("", nil)
	case len(runs) > 1:
		return nil, usage("heal: several runs left something in this cluster, name one: %s", strings.Join(runs, ", "))
	}
	return undo.FromCluster(ctx, client, runs[0])
}

// healedChange is one line of the result.
type healedChange struct {
	ID      int    `json:"id"`
	What    string `json:"what"`
	Undone  bool   `json:"undone"`
	Tries   int    `json:"tries"`
	Checked string `json:"checked,omitempty"`
	Error   string `json:"error,omitempty"`
}

// tell prints the results; anything not undone is exit code 4.
func (h *healing) tell(run string, results []undo.Result) error {
	lines := []healedChange{}
	for _, r := range results {
		l := healedChange{ID: r.Entry.ID, What: r.Entry.Change.What, Undone: r.Err == nil, Tries: r.Tries, Checked: r.Checked}
		if r.Err != nil {
			l.Error = r.Err.Error()
		}
		lines = append(lines, l)
	}
	if len(lines) == 0 {
		h.talk("Nothing to heal.")
	}
	err := h.print(lines, func(w io.Writer) {
		for _, l := range lines {
			if l.Undone {
				fmt.Fprintf(w, "undone\t%s\t%s\n", l.What, l.Checked)
			} else {
				fmt.Fprintf(w, "NOT UNDONE\t%s\t%s\n", l.What, l.Error)
			}
		}
	})
	if left := undo.Failed(results); len(left) > 0 {
		failed := fmt.Errorf("%s of run %s could not be undone", plural(len(left), "change"), run)
		return exit.Hint(exit.With(exit.Unhealed, failed), "do it by hand, or run shakedown heal again when the cause is gone")
	}
	return err
}
