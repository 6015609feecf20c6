package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters/embedded"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/load"
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
	d := diagnosis{OK: true, Findings: append(a.provider(nil).Diagnose(ctx), sessionRoom(load.LookRoom()))}
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

// fewSessions is the load of the catalogue's main scenario, and some.
const fewSessions = 500

// sessionRoom says how many sessions the load engine can hold here.
func sessionRoom(r load.Room) embedded.Finding {
	f := embedded.Finding{Name: "sessions", OK: r.Sessions() >= fewSessions, Detail: fmt.Sprintf(
		"up to %d through one proxy: open files allow %d, local ports %d, free memory %d before the system under test takes its part",
		r.Sessions(), r.Files, r.Ports, r.Memory)}
	if !f.OK {
		f.Do = "raise the limit of open files (ulimit -n), or free memory"
	}
	return f
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
