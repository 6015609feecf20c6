package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"shakedown.dev/shakedown/history"
)

// How often a control canary asks and how long an answer may take. What it measures is the generator, the network and
// the machine, so it does what the load does: a line a second, and every other second as many handshakes in a row as an
// opening through a proxy has, because a machine that still wakes whoever has a line to return may have no time for who
// must compute. They end with the node's certificate: what comes after that asks the auth, and would fail with Teleport.
const (
	controlInterval     = time.Second
	controlHandshake    = 2 * time.Second
	controlShakesInARow = 3
	controlTimeout      = 5 * time.Second
)

// errSilent is a control that answered nothing.
var errSilent = errors.New("no answer within " + controlTimeout.String())

// control holds validity.control sessions beside Teleport, each of which asks for a line every second.
func (e *Engine) control(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range e.cfg.Plan.Validity.Control {
		wg.Go(func() { e.controlOne(ctx, i) })
		wg.Go(func() { e.controlShakes(ctx, i) })
	}
	wg.Wait()
}

func (e *Engine) controlOne(ctx context.Context, i int) {
	var held *controlSession
	defer func() { held.close() }()
	ticker := time.NewTicker(controlInterval)
	defer ticker.Stop()
	for {
		if held == nil {
			if way, ok := nth(e.cfg.Targets.Controls(), i); ok {
				held = &controlSession{way: way}
			}
		}
		if held != nil && !e.asked(ctx, history.Control{Target: held.way.Target}, held.ask) {
			held.close()
			held = nil // perhaps there is another now
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// controlShakes does handshakes where the way allows it.
func (e *Engine) controlShakes(ctx context.Context, i int) {
	ticker := time.NewTicker(controlHandshake)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if way, ok := nth(e.cfg.Targets.Controls(), i); ok && way.Handshake != nil {
			e.asked(ctx, history.Control{Target: way.Target, Handshake: true}, func(ctx context.Context) (err error) {
				for n := 0; n < controlShakesInARow && err == nil; n++ {
					err = way.Handshake(ctx)
				}
				return err
			})
		}
	}
}

func nth[T any](from []T, i int) (T, bool) {
	if len(from) == 0 {
		var none T
		return none, false
	}
	return from[i%len(from)], true
}

// asked writes down one question of a control canary.
func (e *Engine) asked(ctx context.Context, out history.Control, ask func(context.Context) error) bool {
	start := e.history.Now()
	askCtx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	err := ask(askCtx)
	if ctx.Err() != nil {
		return false // it was us
	}
	outcome := history.OK
	if out.Took = e.history.Now() - start; err != nil {
		out.Error, outcome = err.Error(), history.Failed
	}
	e.history.Record(history.Event{Subject: out.Target, Outcome: outcome, Data: out})
	return err == nil
}

// controlSession is a stream of lines beside Teleport.
type controlSession struct {
	way    Control
	stream io.ReadWriteCloser
	lines  chan string
	asked  int
}

func (c *controlSession) ask(ctx context.Context) error {
	if c.stream == nil {
		stream, err := c.way.Open(ctx)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		c.stream, c.lines = stream, make(chan string, 1)
		go readLines(stream, c.lines)
	}
	c.asked++
	want := fmt.Sprint(controlLine, c.asked)
	stream, written := c.stream, make(chan error, 1)
	go func() { _, err := fmt.Fprintln(stream, want); written <- err }()
	for {
		select {
		case <-ctx.Done():
			return errSilent
		case err := <-written:
			if err != nil {
				return fmt.Errorf("write: %w", err)
			}
			written = nil
		case line, ok := <-c.lines:
			switch {
			case !ok:
				return io.ErrUnexpectedEOF
			case !strings.HasPrefix(line, controlLine):
				continue // the node's own word, such as that it cannot record any more
			case line != want:
				return fmt.Errorf("sent %q, got %q", want, line)
			}
			return nil
		}
	}
}

// controlLine begins each line of a canary.
const controlLine = "control "

// readLines passes lines on until the stream ends; the asker is the only one who closes it.
func readLines(from io.Reader, to chan<- string) {
	defer close(to)
	for s := bufio.NewScanner(from); s.Scan(); {
		to <- s.Text()
	}
}

// close may be called on nil and twice.
func (c *controlSession) close() {
	if c == nil || c.stream == nil {
		return
	}
	c.stream.Close()
	lines := c.lines
	go func() {
		for range lines { //nolint:revive // so that the reader can end
		}
	}()
	c.stream = nil
}
