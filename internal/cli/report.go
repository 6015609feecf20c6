package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/reports"
)

func (a *app) report() *cobra.Command {
	var names []string
	for _, f := range reports.Formats() {
		names = append(names, f.Name)
	}
	var format, out string
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Report a run folder in another format",
		Long: "RUN is a run's folder, or its ID if that lies in runs/. What is reported is the verdict in the folder; a folder\n" +
			"without one is judged first. The exit status says whether the report was written, not what the verdict is:\n" +
			"that is shakedown check.",
		Example: "  shakedown report runs/20260101-000000-steady-1a2b --format html --out report.html",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.format(cmd, format)
			if err != nil {
				return err
			}
			return a.runReport(args[0], format, out)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "one of "+strings.Join(names, ", "))
	cmd.Flags().StringVar(&out, "out", "", "write to this `FILE` instead of standard output")
	return cmd
}

// format is what --format says, or what -o says if only that is given.
func (a *app) format(cmd *cobra.Command, format string) (string, error) {
	if !cmd.Flags().Changed("format") {
		return a.output, nil
	}
	if a.output == "json" && format != "json" {
		return "", usage("-o json and --format %s contradict each other", format)
	}
	return format, nil
}

func (a *app) runReport(name, format, out string) error {
	f, err := reports.ByName(format)
	if err != nil {
		return usage("%w", err)
	}
	dir, err := runFolder(name)
	if err != nil {
		return err
	}
	r, err := a.readReport(dir)
	if err != nil {
		return err
	}
	r.Color = r.Color && out == ""
	var text bytes.Buffer
	if err := f.Report(&text, r); err != nil {
		return fmt.Errorf("report %s: %w", dir, err)
	}
	return a.deliver(text.Bytes(), out)
}

// deliver writes to a file, or to standard output if none is named.
func (a *app) deliver(text []byte, file string) error {
	if file == "" {
		_, err := a.Out.Write(text)
		return err
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	a.talk("Written to %s.", file)
	return nil
}

// readReport is what a folder has to tell: its verdict, and its history if that is still there.
func (a *app) readReport(dir string) (reports.Report, error) {
	v, unjudged := checks.ReadVerdict(dir)
	if unjudged != nil && !errors.Is(unjudged, fs.ErrNotExist) {
		return reports.Report{}, exit.Hint(unjudged, "shakedown check judges the run anew")
	}
	if unjudged == nil && !exists(filepath.Join(dir, checks.HistoryFile)) {
		return a.newReport(dir, nil, v), nil
	}
	m, err := measure(dir)
	if err != nil {
		return reports.Report{}, err
	}
	if unjudged != nil {
		v = checks.Judge(m, checks.Options{})
	}
	return a.newReport(dir, m, v), nil
}
