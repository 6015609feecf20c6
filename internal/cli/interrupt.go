package cli

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/undo"
)

// patience takes the signals of a run. The first has ended the run's context already: it heals and
// reports. After the second it only heals, and the third leaves at once.
type patience struct {
	signals chan os.Signal
	over    chan struct{}
	hurry   chan struct{} // closed when only healing is wanted
	done    chan struct{}
}

// heed begins; until release signals do nothing else to the program.
func (a *app) heed(watch *inTurn, leave func()) *patience {
	p := &patience{signals: make(chan os.Signal, 3), over: make(chan struct{}), hurry: make(chan struct{}), done: make(chan struct{})}
	signal.Notify(p.signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	note := func(text string) { watch.Step(clusters.Step{Name: text, State: clusters.StepNote}) }
	go func() {
		defer close(p.done)
		for n := 1; ; n++ {
			select {
			case <-p.over:
				return
			case <-p.signals:
			}
			switch n {
			case 1:
				note("Interrupted: healing and reporting; once more only heals")
			case 2:
				close(p.hurry)
				note("Only healing; once more leaves at once")
			default:
				leave()
			}
		}
	}()
	return p
}

// release ends it, and says whether only healing was wanted.
func (p *patience) release() (hurried bool) {
	signal.Stop(p.signals)
	close(p.over)
	<-p.done
	select {
	case <-p.hurry:
		return true
	default:
		return false
	}
}

// leave ends the program and says how to clean up behind it.
func (r *running) leave(began time.Time) {
	fmt.Fprintln(r.Err, "shakedown: left at once")
	if dir := newestRun(r.out, began); dir != "" {
		fmt.Fprintf(r.Err, "  shakedown heal %s undoes what is left\n", quoted(dir))
	}
	os.Exit(int(exit.Unhealed))
}

// newestRun is the youngest run folder below out that has changed something since then, or "". The names of
// runs begin with their time.
func newestRun(out string, since time.Time) string {
	logs, _ := filepath.Glob(filepath.Join(out, "*", undo.FileName)) // the pattern is valid
	slices.Sort(logs)
	for _, log := range slices.Backward(logs) {
		if info, err := os.Stat(log); err == nil && !info.ModTime().Before(since.Truncate(time.Second)) {
			return filepath.Dir(log)
		}
	}
	return ""
}
