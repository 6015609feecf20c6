package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
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

// withChart are the overrides that put a chart in the place of the scenario's, before those of the user. The
// versions that the scenario names are another chart's: any will do, unless the user says which.
func withChart(set []string, chart string, s *scenarios.Scenario) []string {
	releases := []string{"from"}
	if s.Teleport.To != nil {
		releases = append(releases, "to")
	}
	var all []string
	for _, r := range releases {
		all = append(all, fmt.Sprintf("spec.teleport.%s.chart=%q", r, chart), fmt.Sprintf("spec.teleport.%s.version=%q", r, "*"))
	}
	return append(all, set...)
}

// changesSomething is an error if the upgrade leads to where it began, as it does where --chart replaces both.
func changesSomething(t scenarios.Teleport) error {
	if t.To == nil || t.From.String() != t.To.String() || !maps.EqualFunc(t.From.Values, t.To.Values, func(a, b any) bool { return reflect.DeepEqual(a, b) }) {
		return nil
	}
	return exit.Hint(usage("the upgrade changes nothing: teleport.to is the same as teleport.from, chart %s", t.From),
		"say what to upgrade to, such as --set teleport.to.version=VERSION or --set teleport.to.values.teleportVersionOverride=VERSION")
}
