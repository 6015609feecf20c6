package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/run"
	"shakedown.dev/shakedown/scenarios"
)

// shrinking are the flags of shrink, and what it has found so far.
type shrinking struct {
	running
	tries int

	earlier earlier
	wanted  []string // what failed in the run
	failed  string   // folder of the last run that failed so, too
	perform func(context.Context, run.Options) (run.Result, error)
}

func (a *app) shrink() *cobra.Command {
	s := &shrinking{running: running{planning: planning{app: a}}}
	s.quiet, s.perform = true, s.running.perform
	cmd := &cobra.Command{
		Use:   "shrink RUN",
		Short: "Find the fewest faults with which a run still fails",
		Long: "RUN is the folder of a run whose verdict is fail, or its ID. Its plan is carried out again: whole, without any\n" +
			"fault, and then without one fault after the other, each time as a run of its own with a folder of its own. A\n" +
			"trial counts as failed if something fails in it that failed in RUN: a gate, or a finding of the same check.\n" +
			"The last folder named is a run of the smallest plan: shakedown run --replay repeats it. The exit status is 0 if\n" +
			"a smallest plan was found, and 2 if the whole plan did not fail again.",
		Example: "  shakedown shrink runs/20260101-000000-rollout-under-fire-4f2a --tries 3",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return s.do(cmd.Context(), args[0]) },
	}
	s.runFlags(cmd)
	cmd.Flags().IntVar(&s.tries, "tries", 1, "how often a plan that does not fail is run before it counts as one that passes")
	return cmd
}

func (s *shrinking) do(ctx context.Context, name string) error {
	if s.tries < 1 {
		return usage("--tries %d: want at least 1", s.tries)
	}
	var err error
	if s.earlier, err = readEarlier(name); err != nil {
		return err
	}
	verdict, err := checks.ReadVerdict(s.earlier.dir)
	if err != nil {
		return usage("%s: %w", s.earlier.dir, err)
	}
	if s.wanted = failures(verdict); len(s.wanted) == 0 {
		return usage("%s did not fail (%s): there is nothing to look for", s.earlier.dir, verdict.Verdict)
	}
	s.talk("Looking for the fewest faults with which this fails: %s", strings.Join(s.wanted, ", "))
	got, err := run.Shrinking{Plan: s.earlier.plan, Fails: s.fails, Tell: func(about string) { s.talk("Trial %s.", about) }}.Do(ctx)
	if errors.Is(err, run.ErrNotAgain) {
		err = exit.Hint(exit.With(exit.Inconclusive, err), "it fails only sometimes, perhaps: --tries 5 runs a plan up to five times")
	}
	return errors.Join(s.print(s.result(got), func(w io.Writer) { s.write(w, got) }), err)
}

// failures are the names of what failed in a run: gates, and the checks of findings.
func failures(v checks.Verdict) (names []string) {
	if v.Verdict != checks.Fail {
		return nil
	}
	for _, g := range v.Gates {
		if g.Outcome == checks.Fail {
			names = append(names, "gate "+g.Name)
		}
	}
	for _, f := range v.Findings {
		if name := "check " + f.Check; f.Outcome == checks.Fail && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// fails runs a plan, as often as it may take, and says whether it failed in a way that is looked for. A run
// that could not be made or cleaned up ends the search; one that is inconclusive did not fail.
func (s *shrinking) fails(ctx context.Context, plan *scenarios.Plan) (bool, error) {
	for range s.tries {
		options, err := s.again(s.earlier, plan)
		if err != nil {
			return false, err
		}
		result, err := s.perform(ctx, options)
		switch {
		case len(result.Unhealed) > 0:
			return false, s.outcome(result, err)
		case err != nil:
			return false, exit.Hint(err, "what there is lies in "+result.Folder)
		case result.Interrupted:
			return false, errInterrupted
		}
		same := func(name string) bool { return slices.Contains(s.wanted, name) }
		if slices.ContainsFunc(failures(result.Verdict), same) {
			s.failed = result.Folder
			s.talk("It fails: %s", result.Folder)
			return true, nil
		}
		s.talk("It does not fail, it is %s: %s", result.Verdict.Verdict, result.Folder)
	}
	return false, nil
}

// shrunk is the result as JSON.
type shrunk struct {
	Run     string   `json:"run"`
	Fails   []string `json:"fails"`
	Left    []string `json:"left"`
	Dropped []string `json:"dropped"`
	Trials  int      `json:"trials"`
	Folder  string   `json:"folder,omitempty"` // of a run of the smallest plan
}

func (s *shrinking) result(got run.Shrunk) shrunk {
	return shrunk{Run: s.earlier.dir, Fails: s.wanted, Left: append([]string{}, got.Left...), Dropped: append([]string{}, got.Dropped...), Trials: got.Trials, Folder: s.failed}
}

func (s *shrinking) write(w io.Writer, got run.Shrunk) {
	left := "no fault at all"
	if len(got.Left) > 0 {
		left = strings.Join(got.Left, ", ")
	}
	fmt.Fprintf(w, "it takes\t%s\n", left)
	if len(got.Dropped) > 0 {
		fmt.Fprintf(w, "not needed\t%s\n", strings.Join(got.Dropped, ", "))
	}
	fmt.Fprintf(w, "plans tried\t%d\n", got.Trials)
	if s.failed != "" {
		fmt.Fprintf(w, "repeat with\tshakedown run --replay %s\n", quoted(s.failed))
	}
}
