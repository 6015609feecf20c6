package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters/embedded"
	"shakedown.dev/shakedown/internal/exit"
)

// diagnosis is the result of doctor.
type diagnosis struct {
	OK       bool               `json:"ok"`
	Findings []embedded.Finding `json:"findings"`
}

func (a *app) doctor() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say whether this machine can run Shakedown, and how large",
		Long:  "Exit status 0: it can. 3: something that is needed is missing; each line says what to do.",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.runDoctor(cmd.Context()) },
	}
}

func (a *app) runDoctor(ctx context.Context) error {
	d := diagnosis{OK: true, Findings: a.provider(nil).Diagnose(ctx)}
	for _, f := range d.Findings {
		d.OK = d.OK && (f.OK || !f.Required)
	}
	if err := a.print(d, func(w io.Writer) { describe(w, d) }); err != nil {
		return err
	}
	if !d.OK {
		return statusError(exit.Broken)
	}
	return nil
}

func describe(w io.Writer, d diagnosis) {
	fmt.Fprintln(w, "The embedded cluster on this machine:")
	for _, f := range d.Findings {
		mark := "✓"
		switch {
		case !f.OK && f.Required:
			mark = "✗"
		case !f.OK:
			mark = "!"
		}
		fmt.Fprintf(w, " %s %s\t%s\n", mark, f.Name, f.Detail)
		if !f.OK && f.Do != "" {
			fmt.Fprintf(w, "  \t→ %s\n", f.Do)
		}
	}
	if !d.OK {
		fmt.Fprintln(w, "It cannot run here as things are; ✗ says why. With Docker there is --cluster kind.")
	}
}
