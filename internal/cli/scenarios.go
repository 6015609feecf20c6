package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/run"
	"shakedown.dev/shakedown/scenarios"
)

func (a *app) scenarios() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scenarios",
		Short: "List and show the catalogue of scenarios",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return a.listScenarios() },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the catalogue", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return a.listScenarios() },
		},
		&cobra.Command{
			Use: "show NAME", Short: "Print a scenario of the catalogue, to change it or to learn the language",
			Example: "  shakedown scenarios show steady > mine.yaml",
			Args:    cobra.ExactArgs(1),
			RunE:    func(_ *cobra.Command, args []string) error { return a.showScenario(args[0]) },
		},
		&cobra.Command{
			Use: "actions", Short: "Print what may stand under do: in a timeline, as Markdown", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return a.listActions() },
		},
	)
	return cmd
}

// listedScenario is a line of scenarios list.
type listedScenario struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Source      string `json:"source,omitempty"`
}

func (a *app) listScenarios() error {
	list, err := scenarios.List()
	if err != nil {
		return err
	}
	lines := []listedScenario{}
	for _, l := range list {
		lines = append(lines, listedScenario(l))
	}
	return a.print(lines, func(w io.Writer) {
		fmt.Fprintln(w, "NAME\tWHAT IT SHOWS")
		for _, l := range lines {
			fmt.Fprintf(w, "%s\t%s\n", l.Name, l.Description)
		}
	})
}

// showScenario prints the file, or with -o json the scenario as it was understood, defaults filled in.
func (a *app) showScenario(name string) error {
	text, err := scenarios.Text(name)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	if a.output != "json" {
		_, err := a.Out.Write(text)
		return err
	}
	s, err := scenarios.Get(name, run.DecodeOptions(nil))
	if err != nil {
		return err
	}
	return a.print(s, nil)
}

// listActions prints the vocabulary of this version.
func (a *app) listActions() error {
	words := run.Vocabulary()
	if a.output == "json" {
		return a.print(words, nil)
	}
	return words.Markdown(a.Out)
}
