package boot

import (
	"encoding/json"
	"os"
	"sync"
)

// progress tells the launcher what is going on, until it has gone away.
type progress struct {
	mu  sync.Mutex
	out *os.File
}

func (p *progress) say(step, state, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == nil {
		return
	}
	line, err := json.Marshal(progressLine{step, state, detail})
	if err != nil {
		return
	}
	if _, err := p.out.Write(append(line, '\n')); err != nil {
		// The launcher is gone; its lifeline says what that means for us.
		p.out.Close()
		p.out = nil
	}
}

func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out != nil {
		p.out.Close()
		p.out = nil
	}
}

// step runs do as a named step of the start-up.
func (p *progress) step(name string, do func() error) error {
	p.say(name, stepStarted, "")
	if err := do(); err != nil {
		p.say(name, stepFailed, err.Error())
		return err
	}
	p.say(name, stepDone, "")
	return nil
}
