package cri

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAttachedClients(t *testing.T) {
	var o outputs
	var out, errOut bytes.Buffer
	a := o.attach(&out, &errOut)
	b := o.attach(nil, nil) // a client of stdin only
	o.broadcast(false, []byte("out"))
	o.broadcast(true, []byte("err"))
	o.close()
	<-a.gone
	<-b.gone
	if out.String() != "out" || errOut.String() != "err" {
		t.Errorf("got %q and %q", &out, &errOut)
	}
	late := o.attach(&out, nil)
	<-late.gone // at once: the container has ended
	o.detach(late)
}

type stuck struct{ release chan struct{} }

func (s stuck) Write(p []byte) (int, error) { <-s.release; return len(p), nil }

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

// A client that reads nothing holds the container up for attachLimit, then no more.
func TestStuckClientIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outputs
		s := stuck{make(chan struct{})}
		c := o.attach(s, nil)
		start := time.Now()
		for range cap(c.queue) + 10 {
			o.broadcast(false, []byte("x"))
		}
		if took := time.Since(start); took != attachLimit {
			t.Errorf("held up for %s, want %s", took, attachLimit)
		}
		close(s.release)
		<-c.gone
		o.detach(c)
	})
}

func TestBrokenClientHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outputs
		c := o.attach(broken{}, nil)
		start := time.Now()
		for range cap(c.queue) * 2 {
			o.broadcast(false, []byte("x"))
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("held up for %s", took)
		}
		<-c.gone
		o.close()
	})
}

// Someone else still holds the write end after the process has ended.
func TestDrainGivesUpOnOrphans(t *testing.T) {
	r, child, err := pipeFromChild()
	must(t, err)
	w := os.NewFile(uintptr(child), "orphan")
	defer w.Close()
	done := make(chan struct{})
	var got strings.Builder
	var wg sync.WaitGroup
	wg.Go(func() { drain(r, done, func(p []byte) { got.Write(p) }) })
	w.WriteString("last words")
	close(done)
	wg.Wait() // hangs if it does not give up
	if got.String() != "last words" {
		t.Errorf("got %q", got.String())
	}
}

func TestFeed(t *testing.T) {
	c := &containerIO{log: &logFile{}}
	if err := c.feed(strings.NewReader("x"), false); err == nil {
		t.Error("a container without stdin takes input")
	}
	child, w, err := pipeToChild()
	must(t, err)
	r := os.NewFile(uintptr(child), "stdin")
	defer r.Close()
	c.stdin = w
	must(t, c.feed(strings.NewReader("one"), false))
	must(t, c.feed(strings.NewReader(" two"), true))
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil || b.String() != "one two" {
		t.Errorf("stdin got %q %v", &b, err)
	}
}

// A program may close its streams some time before it ends; its terminal is still its own then.
func TestDrainKeepsTheStreamUntilTheProcessHasEnded(t *testing.T) {
	r, child, err := pipeFromChild()
	must(t, err)
	os.NewFile(uintptr(child), "closed early").Close()
	done, returned := make(chan struct{}), make(chan struct{})
	go func() { defer close(returned); drain(r, done, func([]byte) {}) }()
	select {
	case <-returned:
		t.Error("closed before the process had ended")
	case <-time.After(50 * time.Millisecond):
	}
	close(done)
	<-returned // hangs if it waits for anything else
}
