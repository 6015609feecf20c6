package cli

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/reports"
)

// checking are the flags of check.
type checking struct {
	*app
	skip   []string
	dryRun bool
}

func (a *app) check() *cobra.Command {
	c := &checking{app: a}
	cmd := &cobra.Command{
		Use:   "check RUN",
		Short: "Judge a run folder again",
		Long: "RUN is a run's folder, or its ID if that lies in runs/. Nothing but the folder is looked at, so an old run can\n" +
			"be judged by newer checks. The verdict and the reports in the folder are written anew. The exit status is the\n" +
			"verdict: 0 pass, 1 fail, 2 inconclusive, 3 error, 4 something was left unhealed.",
		Example: "  shakedown check runs/20260101-000000-steady-1a2b\n" +
			"  shakedown check --skip 'recordings explained' --dry-run 20260101-000000-steady-1a2b",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return c.do(args[0]) },
	}
	cmd.Flags().StringSliceVar(&c.skip, "skip", nil, "leave this `CHECK` out, and say so in the verdict: "+strings.Join(checks.Skippable(), ", "))
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "write nothing into the folder")
	return cmd
}

func (c *checking) do(name string) error {
	for _, s := range c.skip {
		if !slices.Contains(checks.Skippable(), s) {
			return usage("--skip %s: want %s", s, strings.Join(checks.Skippable(), ", "))
		}
	}
	dir, err := runFolder(name)
	if err != nil {
		return err
	}
	m, err := measure(dir)
	if err != nil {
		return err
	}
	before, had := checks.ReadVerdict(dir)
	v := checks.Judge(m, checks.Options{Skip: c.skip})
	report := c.newReport(dir, m, v)
	var written error
	if !c.dryRun {
		report.Page = filepath.Join(dir, pageFile)
		if written = reports.WriteFolder(dir, report); written == nil {
			c.talk("Judged again; the verdict and the reports in %s are new.", dir)
		}
	}
	if had == nil && before.Verdict != v.Verdict {
		c.talk("The verdict was %s before.", before.Verdict)
	}
	if err := c.tellVerdict(report); err != nil {
		return err
	}
	if written != nil {
		return exit.Hint(written, "--dry-run judges without writing")
	}
	return ended(v)
}

// tellVerdict prints the report of a run, or with -o json its verdict.
func (a *app) tellVerdict(r reports.Report) error {
	if a.output == "json" {
		return reports.JSON(a.Out, r)
	}
	return reports.Text(a.Out, r)
}

// ended is the exit status of a verdict; nil for a pass.
func ended(v checks.Verdict) error {
	if code := v.ExitCode(); code != 0 {
		return statusError(exit.Code(code))
	}
	return nil
}
