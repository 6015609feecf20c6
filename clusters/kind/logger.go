package kind

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"sigs.k8s.io/kind/pkg/log"

	"shakedown.dev/shakedown/clusters"
)

// logger is kind's progress, told as ours: it says "• Preparing nodes" and then "✓ …" or "✗ …".
type logger struct {
	to  func(clusters.Step)
	log *slog.Logger
}

func (l *logger) Warn(message string)            { l.log.Warn(message) }
func (l *logger) Warnf(format string, a ...any)  { l.log.Warn(fmt.Sprintf(format, a...)) }
func (l *logger) Error(message string)           { l.log.Error(message) }
func (l *logger) Errorf(format string, a ...any) { l.log.Error(fmt.Sprintf(format, a...)) }

func (l *logger) V(level log.Level) log.InfoLogger { return info{l, level} }

type info struct {
	*logger
	level log.Level
}

func (i info) Info(message string) {
	if i.level > 0 {
		i.log.Debug(message)
		return
	}
	if s, ok := step(message); ok {
		// "Ready after 0s" is told as a step that begins and never ends.
		if i.to != nil && !strings.HasPrefix(s.Name, "kind: Ready after") {
			i.to(s)
		}
		return
	}
	i.log.Info(strings.TrimSpace(message))
}

func (i info) Infof(format string, a ...any) { i.Info(fmt.Sprintf(format, a...)) }
func (i info) Enabled() bool                 { return i.level == 0 }

// pictures are what kind ends its steps with.
var pictures = regexp.MustCompile(`(\s*[^\p{L}\p{N}\p{P}\p{Z}]+\s*)+$`)

// step reads a line of kind's status (pkg/internal/cli/status.go of kind).
func step(message string) (clusters.Step, bool) {
	text := strings.TrimSpace(message)
	for mark, state := range map[string]clusters.StepState{"•": clusters.StepStarted, "✓": clusters.StepDone, "✗": clusters.StepFailed} {
		if name, ok := strings.CutPrefix(text, mark); ok {
			name = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(name), "..."))
			return clusters.Step{Name: "kind: " + strings.TrimSpace(pictures.ReplaceAllString(name, "")), State: state}, true
		}
	}
	return clusters.Step{}, false
}
