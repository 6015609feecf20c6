// Package timers is one queue of moments that thousands of sessions share: a heap, one goroutine, one timer of the
// runtime. An entry is part of what waits, so that setting it anew allocates nothing.
package timers

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Entry is something that will be done at a moment. It may be set again at any time, also from Do.
type Entry struct {
	// Do is called by the queue's goroutine, which must not be held up: start a goroutine for what may block.
	Do func()

	at    time.Time
	index int // in the heap, from 1; 0: not waiting
}

// Queue calls entries at their moments. The zero value is not usable; see New.
type Queue struct {
	mu   sync.Mutex
	heap entries
	wake chan struct{}
}

// New makes a queue; nothing is called before Run.
func New() *Queue { return &Queue{wake: make(chan struct{}, 1)} }

// Set calls e at a moment instead of whenever it was to be called before.
func (q *Queue) Set(e *Entry, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.at = at
	if e.index > 0 {
		heap.Fix(&q.heap, e.index-1)
	} else {
		heap.Push(&q.heap, e)
	}
	if e.index == 1 {
		q.nudge()
	}
}

// Stop takes e out; it may just be being called.
func (q *Queue) Stop(e *Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.index > 0 {
		heap.Remove(&q.heap, e.index-1)
	}
}

// Len is how many entries wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.heap)
}

func (q *Queue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// idle is how long the queue sleeps when nothing waits.
const idle = time.Hour

// Run calls entries until ctx ends.
func (q *Queue) Run(ctx context.Context) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		timer.Reset(q.due())
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		case <-timer.C:
		}
	}
}

// due calls what is due and gives the time until the next.
func (q *Queue) due() time.Duration {
	for {
		e, wait := q.pop()
		if e == nil {
			return wait
		}
		e.Do()
	}
}

func (q *Queue) pop() (*Entry, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.heap) == 0 {
		return nil, idle
	}
	e := q.heap[0]
	if wait := time.Until(e.at); wait > 0 {
		return nil, wait
	}
	heap.Pop(&q.heap)
	return e, 0
}

// entries is the heap, soonest first.
type entries []*Entry

func (h entries) Len() int           { return len(h) }
func (h entries) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h entries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *entries) Push(x any) {
	e := x.(*Entry)
	*h = append(*h, e)
	e.index = len(*h)
}

func (h *entries) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.index = 0
	return e
}
