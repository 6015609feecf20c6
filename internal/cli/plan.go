package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/run"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/lab"
)

// planning are the flags of plan, which run has, too.
type planning struct {
	*app
	where
	seed  uint64
	set   []string
	chart string
}

func (a *app) plan() *cobra.Command {
	p := &planning{app: a}
	cmd := &cobra.Command{
		Use:   "plan SCENARIO",
		Short: "Say what a run would do, and touch nothing",
		Long: scenarioHelp + "\n\nIt prints the timeline with its targets, the load, the gates, the blast radius, what was filled in and whether\n" +
			"the cluster can do it at all. All that is wrong with a scenario is told at once. With -o json it is plan.json.\n" +
			"The same scenario and seed give the same plan.",
		Example: "  shakedown plan rollout-under-fire\n" +
			"  shakedown plan mine.yaml --seed 7 --set load[terminals].arrival.maxHeld=50",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.do(cmd.Context(), args[0]) },
	}
	p.flags(cmd)
	cmd.Flags().Uint64Var(&p.seed, "seed", 1, "of all that is drawn at random")
	return cmd
}

// flags adds those that say what is planned.
func (p *planning) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	p.where.flags(flags)
	flags.StringArrayVar(&p.set, "set", nil, "override a field of the scenario, `PATH=VALUE` with PATH below spec; repeatable")
	flags.StringVar(&p.chart, "chart", "", "Helm `CHART` of the system under test: a folder, an archive or a reference")
}

func (p *planning) do(ctx context.Context, name string) error {
	made, err := p.make(ctx, name)
	if err != nil {
		return err
	}
	if p.output == "json" {
		return made.plan.Write(p.Out)
	}
	if err := made.plan.Print(p.Out); err != nil {
		return err
	}
	describePlan(p.Out, made.plan, made.filled)
	return nil
}

// planned is a scenario, and the plan that it gives.
type planned struct {
	scenarioText
	scenario *scenarios.Scenario
	plan     *scenarios.Plan
	filled   []lab.Default
}

// make reads the scenario, plans, and checks all that can be checked before anything is touched.
func (p *planning) make(ctx context.Context, name string) (planned, error) {
	found, s, err := p.scenario(name)
	if err != nil {
		return planned{}, err
	}
	plan, filled, err := run.MakePlan(ctx, s, p.provider, p.seed)
	if ctx.Err() != nil {
		return planned{}, context.Cause(ctx)
	}
	if err != nil {
		return planned{}, found.mistakes(err)
	}
	if p.chart != "" {
		err = changesSomething(plan.Teleport)
	}
	return planned{found, s, plan, filled}, err
}

// scenario finds and decodes the scenario with all overrides.
func (p *planning) scenario(name string) (scenarioText, *scenarios.Scenario, error) {
	if err := p.valid(); err != nil {
		return scenarioText{}, nil, err
	}
	found, err := p.findScenario(name)
	if err != nil {
		return found, nil, err
	}
	s, err := found.decode(p.set)
	if err != nil || p.chart == "" {
		return found, s, err
	}
	p.set = withChart(p.set, p.chart, s)
	s, err = found.decode(p.set)
	return found, s, err
}

// describePlan says what the plan itself does not: what was filled in, and what was held against the cluster.
func describePlan(w io.Writer, plan *scenarios.Plan, filled []lab.Default) {
	if len(filled) > 0 {
		fmt.Fprintln(w, "filled in, since the scenario does not say")
		for _, d := range filled {
			fmt.Fprintf(w, "  %s = %v: %s\n", d.Path, d.Value, d.Reason)
		}
	}
	if len(plan.Facts.Components) == 0 {
		return
	}
	fmt.Fprintf(w, "feasible: nothing is blocked by the replicas, anti-affinity and budgets of the chart on %s\n", plural(plan.Facts.Nodes, "node"))
	for _, name := range slices.Sorted(maps.Keys(plan.Facts.Components)) {
		fmt.Fprintf(w, "  %s: %s\n", name, componentWords(plan.Facts.Components[name]))
	}
}

func componentWords(c scenarios.Component) string {
	words := fmt.Sprintf("%s, at most %d more and %d fewer during a rollout", plural(c.Replicas, "replica"), c.MaxSurge, c.MaxUnavailable)
	if c.Recreate {
		words = plural(c.Replicas, "replica") + ", all replaced at once in a rollout"
	}
	if c.Apart {
		words += ", each on a node of its own"
	}
	if c.Budget != nil {
		words += fmt.Sprintf(", budget %s keeps %d", c.Budget.Name, c.Budget.MinAvailable)
	}
	return words
}
