package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/reports"
	"shakedown.dev/shakedown/run"
)

// runsDir is where run folders are made, and where a run is looked up by its ID.
const runsDir = "runs"

// Files of a run folder that have no name elsewhere.
const (
	pageFile     = "report.html"
	envFile      = "env.json"
	scenarioFile = "scenario.yaml"
)

// runFolder finds the folder of a run by its path or, in runs/, by its ID.
func runFolder(name string) (string, error) {
	for _, dir := range []string{name, filepath.Join(runsDir, name)} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, nil
		}
	}
	return "", usage("run %s: there is no such folder, and none in %s/", name, runsDir)
}

// measure measures the run in a folder. That a run left no history is an answer, not a mistake of the
// command line: nothing was measured.
func measure(dir string) (*checks.Measures, error) {
	if !exists(filepath.Join(dir, checks.PlanFile)) {
		return nil, usage("%s is not a run folder: there is no %s in it", dir, checks.PlanFile)
	}
	m, err := checks.MeasureFolder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.With(exit.Inconclusive, fmt.Errorf("%s: the run left no history: nothing was measured", dir))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// newReport makes the report of a run in a folder. Measures are nil where the verdict alone is left.
func (a *app) newReport(dir string, m *checks.Measures, v checks.Verdict) reports.Report {
	r := reports.Report{Verdict: v}
	if m != nil {
		r = reports.New(m, v)
	}
	r.Folder = dir
	r.Repeat = repeatCommand(dir, v.Seed)
	r.Color = a.colors()
	if page := filepath.Join(dir, pageFile); exists(page) {
		r.Page = page
	}
	return r
}

// repeatCommand is the command that does the run again, from env.json; empty if that tells nothing.
func repeatCommand(dir string, seed uint64) string {
	var env run.Env
	data, err := os.ReadFile(filepath.Join(dir, envFile))
	if err != nil || json.Unmarshal(data, &env) != nil || len(env.Argv) < 2 {
		return ""
	}
	if replays(env.Argv) {
		return "shakedown run --replay " + quoted(dir)
	}
	return repeated(env.Argv, filepath.Join(dir, scenarioFile), seed)
}

// ofTheTerminal are flags with a value that change how a run is shown and not what it does.
var ofTheTerminal = []string{"--progress", "--output", "-o"}

// repeated is a command line with the seed set, and without what only concerned the terminal. A scenario that
// came from standard input is read from the run folder instead.
func repeated(argv []string, scenario string, seed uint64) string {
	words := []string{"shakedown"}
	for i := 1; i < len(argv); i++ {
		name, _, joined := strings.Cut(argv[i], "=")
		switch {
		case name == "--seed" || slices.Contains(ofTheTerminal, name):
			if !joined {
				i++ // its value
			}
		case argv[i] == "-v" || argv[i] == "--verbose" || strings.HasPrefix(argv[i], "-o"):
		case argv[i] == "-":
			words = append(words, quoted(scenario))
		default:
			words = append(words, quoted(argv[i]))
		}
	}
	return strings.Join(append(words, fmt.Sprintf("--seed %d", seed)), " ")
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted is a word as a POSIX shell reads it back.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
