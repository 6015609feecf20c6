package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/compare"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/reports"
)

// comparing are the flags of compare.
type comparing struct {
	*app
	format string
	out    string
	seed   uint64
	gate   bool
}

func (a *app) compare() *cobra.Command {
	c := &comparing{app: a}
	cmd := &cobra.Command{
		Use:   "compare A B | compare A… -- B…",
		Short: "Set two runs, or two sets of runs, side by side, with statistics",
		Long: "Each A and B is a run's folder, its ID in runs/, or a folder that holds run folders. With several on a side --\n" +
			"stands between the sides. A difference counts only where so many runs can show it; how many are needed is said.",
		Example: "  shakedown compare runs/before runs/after\n" +
			"  shakedown compare runs/*-steady-v1-* -- runs/*-steady-v2-* --format markdown",
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.format(cmd, c.format)
			if err != nil {
				return err
			}
			c.format = format
			return c.do(args, cmd.ArgsLenAtDash())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.format, "format", "text", "one of text, markdown, json")
	flags.StringVar(&c.out, "out", "", "write to this `FILE` instead of standard output")
	flags.Uint64Var(&c.seed, "seed", 1, "of the resampling: the same seed gives the same intervals")
	flags.BoolVar(&c.gate, "gate", false, "exit status 1 if B is worse in anything, 2 if nothing can be shown with so few runs")
	return cmd
}

func (c *comparing) do(args []string, dash int) error {
	write, err := reports.ComparisonByName(c.format)
	if err != nil {
		return usage("%w", err)
	}
	if dash < 0 && len(args) == 2 {
		dash = 1
	}
	if dash < 1 || dash >= len(args) {
		return usage("compare: want two runs, or A… -- B…")
	}
	a, err := verdicts(args[:dash])
	if err != nil {
		return err
	}
	b, err := verdicts(args[dash:])
	if err != nil {
		return err
	}
	result := compare.Verdicts(a, b, c.seed)
	var text bytes.Buffer
	if err := write(&text, result); err != nil {
		return err
	}
	if err := c.deliver(text.Bytes(), c.out); err != nil || !c.gate {
		return err
	}
	return gated(result)
}

// gated is the exit status of a comparison as a gate.
func gated(r compare.Result) error {
	switch {
	case r.Worse():
		return statusError(exit.Fail)
	case min(r.A.Runs, r.B.Runs) < r.Needed:
		return statusError(exit.Inconclusive)
	}
	return nil
}

// verdicts reads those of one side.
func verdicts(names []string) ([]checks.Verdict, error) {
	var out []checks.Verdict
	var errs []error
	for _, name := range names {
		dirs, err := runFolders(name)
		errs = append(errs, err)
		for _, dir := range dirs {
			v, err := verdictOf(dir)
			errs = append(errs, err)
			out = append(out, v)
		}
	}
	return out, errors.Join(errs...)
}

// runFolders are a run folder, or those directly in a folder.
func runFolders(name string) ([]string, error) {
	dir, err := runFolder(name)
	if err != nil || isRun(dir) {
		return []string{dir}, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if sub := filepath.Join(dir, e.Name()); isRun(sub) {
			dirs = append(dirs, sub)
		}
	}
	if len(dirs) == 0 {
		return nil, usage("%s is not a run folder and holds none", dir)
	}
	return dirs, nil
}

func isRun(dir string) bool {
	return exists(filepath.Join(dir, checks.PlanFile)) || exists(filepath.Join(dir, checks.VerdictFile))
}

// verdictOf reads the verdict of a run, or judges it if nobody has.
func verdictOf(dir string) (checks.Verdict, error) {
	v, err := checks.ReadVerdict(dir)
	if err == nil {
		return v, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return v, exit.Hint(fmt.Errorf("%s: %w", dir, err), "shakedown check judges a run anew")
	}
	m, err := measure(dir)
	if err != nil {
		return v, err
	}
	return checks.Judge(m, checks.Options{}), nil
}
