package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"shakedown.dev/shakedown/clusters"
)

// progress shows steps as they begin and end. Close ends what is still shown.
type progress interface {
	Step(clusters.Step)
	Close()
}

// watch is the progress that the user asked for.
func (a *app) watch() progress {
	switch {
	case a.progress == "json":
		return &jsonProgress{out: json.NewEncoder(a.Err)}
	case a.progress == "tty" || a.progress == "auto" && isTerminal(a.Err) && os.Getenv("TERM") != "dumb":
		return newSpinner(a.Err)
	}
	return &plainProgress{out: a.Err, clock: newStopwatch()}
}

// jsonProgress is a JSON line for each change, for programs.
type jsonProgress struct{ out *json.Encoder }

func (p *jsonProgress) Step(s clusters.Step) {
	_ = p.out.Encode(struct {
		Time   time.Time `json:"time"`
		Step   string    `json:"step"`
		State  string    `json:"state"`
		Detail string    `json:"detail,omitempty"`
	}{time.Now().UTC(), s.Name, string(s.State), s.Detail})
}

func (p *jsonProgress) Close() {}

// plainProgress is a line for each change, for logs.
type plainProgress struct {
	out   io.Writer
	clock stopwatch
}

func (p *plainProgress) Step(s clusters.Step) {
	took := p.clock.took(s)
	if s.State == clusters.StepStarted {
		fmt.Fprintf(p.out, " • %s …\n", s.Name)
		return
	}
	fmt.Fprintln(p.out, finished(s, took, mark(s.State)))
}

func (p *plainProgress) Close() {}

// spinner shows what is going on in one line that moves, as kind does, and a line for each end.
type spinner struct {
	mu      sync.Mutex
	out     io.Writer
	clock   stopwatch
	running []string
	frame   int
	stop    chan struct{}
	stopped chan struct{}
}

const frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

func newSpinner(out io.Writer) *spinner {
	s := &spinner{out: out, clock: newStopwatch(), stop: make(chan struct{}), stopped: make(chan struct{})}
	go s.turn(time.NewTicker(100 * time.Millisecond))
	return s
}

func (s *spinner) turn(tick *time.Ticker) {
	defer close(s.stopped)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.mu.Lock()
			s.frame++
			s.draw()
			s.mu.Unlock()
		}
	}
}

// draw writes the line of the step that began last, over itself.
func (s *spinner) draw() {
	if len(s.running) == 0 {
		return
	}
	all := []rune(frames)
	name := s.running[len(s.running)-1]
	fmt.Fprintf(s.out, "\r\x1b[K %c %s ", all[s.frame%len(all)], decorated(name))
}

func (s *spinner) Step(step clusters.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.clock.took(step)
	if step.State == clusters.StepStarted {
		s.running = append(s.running, step.Name)
		s.draw()
		return
	}
	s.running = slices.DeleteFunc(s.running, func(name string) bool { return name == step.Name })
	colour := map[clusters.StepState]string{clusters.StepDone: "\x1b[32m", clusters.StepFailed: "\x1b[31m"}[step.State]
	step.Name = decorated(step.Name)
	fmt.Fprintf(s.out, "\r\x1b[K%s\n", finished(step, took, colour+mark(step.State)+"\x1b[0m"))
	s.draw()
}

// Close wipes the moving line.
func (s *spinner) Close() {
	close(s.stop)
	<-s.stopped
	fmt.Fprint(s.out, "\r\x1b[K")
}

func mark(state clusters.StepState) string {
	switch state {
	case clusters.StepDone:
		return "✓"
	case clusters.StepFailed:
		return "✗"
	}
	return "•"
}

func finished(s clusters.Step, took time.Duration, mark string) string {
	line := fmt.Sprintf(" %s %s", mark, s.Name)
	if took > 0 {
		line += fmt.Sprintf(" (%.1fs)", took.Seconds())
	}
	// The reason of a failure follows as the error of the command.
	if s.Detail != "" && s.State != clusters.StepFailed {
		line += ": " + s.Detail
	}
	return line
}

// decorated adds kind's pictures to the steps that it has too.
func decorated(name string) string {
	for _, p := range []struct{ word, picture string }{
		{"hollow", "🎈"}, {"control plane", "🕹️"}, {"namespaces", "📦"}, {"nodes", "🚜"}, {"storage", "💾"},
		{"DNS", "📇"}, {"image", "🖼"}, {"down", "🧹"},
	} {
		if strings.Contains(name, p.word) {
			return name + " " + p.picture
		}
	}
	return name
}

// stopwatch remembers when steps began.
type stopwatch map[string]time.Time

func newStopwatch() stopwatch { return stopwatch{} }

// took is how long a step that ends lasted, 0 if its beginning was not seen.
func (w stopwatch) took(s clusters.Step) time.Duration {
	if s.State == clusters.StepStarted {
		w[s.Name] = time.Now()
		return 0
	}
	began, seen := w[s.Name]
	if !seen {
		return 0
	}
	return time.Since(began)
}
