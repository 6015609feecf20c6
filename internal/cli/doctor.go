package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/clusters/embedded"
	"shakedown.dev/shakedown/clusters/kind"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/load"
)

// diagnosis is the result of doctor. OK means that a cluster can be had here, of one provider or the other.
type diagnosis struct {
	OK        bool                `json:"ok"`
	Providers []providerDiagnosis `json:"providers"`
	Machine   []clusters.Finding  `json:"machine"`
}

// providerDiagnosis is what one provider needs.
type providerDiagnosis struct {
	Provider string             `json:"provider"`
	OK       bool               `json:"ok"`
	Findings []clusters.Finding `json:"findings"`
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
	d := diagnosis{Machine: []clusters.Finding{sessionRoom(load.LookRoom())}}
	for _, p := range []providerDiagnosis{
		{Provider: onEmbedded, Findings: (&embedded.Provider{Log: a.log}).Diagnose(ctx)},
		{Provider: onKind, Findings: (&kind.Provider{Log: a.log}).Diagnose(ctx)},
	} {
		p.OK = !slices.ContainsFunc(p.Findings, func(f clusters.Finding) bool { return f.Required && !f.OK })
		d.OK = d.OK || p.OK
		d.Providers = append(d.Providers, p)
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
func sessionRoom(r load.Room) clusters.Finding {
	f := clusters.Finding{Name: "sessions", OK: r.Sessions() >= fewSessions, Detail: fmt.Sprintf(
		"up to %d through one proxy: open files allow %d, local ports %d, free memory %d before the system under test takes its part",
		r.Sessions(), r.Files, r.Ports, r.Memory)}
	if !f.OK {
		f.Do = "raise the limit of open files (ulimit -n), or free memory"
	}
	return f
}

func describe(w io.Writer, d diagnosis) {
	for _, p := range d.Providers {
		fmt.Fprintf(w, "--cluster %s\n", p.Provider)
		describeFindings(w, p.Findings)
	}
	fmt.Fprintln(w, "--cluster existing takes a kubeconfig and nothing of this machine")
	fmt.Fprintln(w, "The load engine on this machine")
	describeFindings(w, d.Machine)
	if !d.OK {
		fmt.Fprintln(w, "No cluster can be made here as things are; ✗ says why.")
	}
}

func describeFindings(w io.Writer, all []clusters.Finding) {
	for _, f := range all {
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
}
