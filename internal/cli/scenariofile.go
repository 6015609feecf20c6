package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/run"
	"shakedown.dev/shakedown/scenarios"
)

// scenarioHelp says how a scenario is named on a command line.
const scenarioHelp = "SCENARIO is a name of the catalogue (shakedown scenarios), a file, or - for standard input."

// scenarioText is a scenario as it was found, not yet decoded.
type scenarioText struct {
	file    string // as problems name it
	text    []byte
	builtin string // its name in the catalogue
}

// findScenario finds what the command line names. A name of the catalogue goes before a file of the same
// name without an ending; ./NAME means the file.
func (a *app) findScenario(arg string) (scenarioText, error) {
	if arg == "-" {
		text, err := io.ReadAll(a.In)
		return scenarioText{file: "(standard input)", text: text}, err
	}
	text, unlisted := scenarios.Text(arg)
	if unlisted == nil {
		return scenarioText{file: arg, text: text, builtin: arg}, nil
	}
	text, err := os.ReadFile(arg)
	switch {
	case err == nil:
		return scenarioText{file: arg, text: text}, nil
	case strings.ContainsRune(arg, filepath.Separator) || filepath.Ext(arg) != "":
		return scenarioText{}, usage("scenario: %w", err)
	}
	return scenarioText{}, exit.With(exit.Usage, unlisted)
}

// decode reads the scenario with everything that this version can carry out.
func (t scenarioText) decode(set []string) (*scenarios.Scenario, error) {
	options := run.DecodeOptions(set)
	var s *scenarios.Scenario
	var err error
	if t.builtin != "" {
		s, err = scenarios.Get(t.builtin, options)
	} else {
		options.Files = os.DirFS(filepath.Dir(t.file))
		s, err = scenarios.Decode(t.file, t.text, options)
	}
	return s, t.mistakes(err)
}

// mistakes makes all problems of a scenario one error of usage.
func (t scenarioText) mistakes(err error) error {
	if problems, ok := errors.AsType[scenarios.Problems](err); ok {
		return usage("%s in scenario %s:\n%w", plural(len(problems), "problem"), t.file, problems)
	}
	return exit.With(exit.Usage, err)
}

// clusterFlag checks --cluster.
func clusterFlag(provider string) error {
	switch provider {
	case "embedded":
		return nil
	case "kind", "existing":
		return usage("--cluster %s: this version runs on the embedded cluster only", provider)
	}
	return usage("--cluster %s: want embedded", provider)
}

// withChart adds the overrides that put a chart in the place of the scenario's.
func withChart(set []string, chart string, s *scenarios.Scenario) []string {
	if chart == "" {
		return set
	}
	set = append(set, fmt.Sprintf("spec.teleport.from.chart=%q", chart))
	if s.Teleport.To != nil {
		set = append(set, fmt.Sprintf("spec.teleport.to.chart=%q", chart))
	}
	return set
}
