package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// FileName is the log's name in a run folder.
const FileName = "undo.jsonl"

// Head is the first line of a log: whose it is, and where its cluster is.
type Head struct {
	Run       string `json:"run"`
	Provider  string `json:"provider,omitempty"` // embedded, kind, existing
	Cluster   string `json:"cluster,omitempty"`  // its name there
	ClusterID string `json:"clusterID,omitempty"`
	Namespace string `json:"namespace,omitempty"` // where the copy of the intents is kept
	Ephemeral bool   `json:"ephemeral,omitempty"` // what the run installs is to end with it, on a cluster that stays
}

// line is one line of the file: a head, an intent (with Change), or a later state of an entry.
type line struct {
	Head    *Head     `json:"head,omitempty"`
	ID      int       `json:"id,omitempty"`
	Time    time.Time `json:"time"`
	State   State     `json:"state,omitempty"`
	Change  *Change   `json:"change,omitempty"`
	Tries   int       `json:"tries,omitempty"`
	Checked string    `json:"checked,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// Mirror keeps a copy of the intents where it survives the loss of the run folder.
type Mirror interface {
	// Put must have stored the entry when it returns nil.
	Put(ctx context.Context, e Entry) error
	// Drop forgets an entry that is undone. One that it does not hold is no error.
	Drop(ctx context.Context, e Entry) error
	// Clean takes away whatever is kept for the run, unless there are entries.
	Clean(ctx context.Context, run string) error
}

// Log is the undo log of one run. It is safe for use by many goroutines.
type Log struct {
	// TryFor is how long is tried to undo one entry; 0 is Patience. To be set before the log is used.
	TryFor time.Duration

	head   Head
	begun  time.Time // when the head was written; zero: not known
	mirror Mirror

	mu      sync.Mutex
	file    file // nil: the mirror alone
	entries []Entry
}

// file is an *os.File, or what a test lets crash.
type file interface {
	Write(p []byte) (int, error)
	Sync() error
	Close() error
}

// Create starts the log of a run. The file is locked until Close, so that nobody heals what a living run
// still needs. A nil mirror keeps no copy in the cluster.
func Create(path string, head Head, mirror Mirror) (*Log, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create undo log: %w", err)
	}
	l := &Log{head: head, begun: time.Now(), mirror: mirror, file: f}
	if err := errors.Join(lock(f), l.write(line{Head: &head})); err != nil {
		return nil, errors.Join(fmt.Errorf("create undo log: %w", err), f.Close())
	}
	return l, nil
}

// Head is the first line.
func (l *Log) Head() Head { return l.head }

// Intend writes down what is about to be changed. The change may be made only after it returned nil: then
// the intent is on the disk and in the cluster.
func (l *Log) Intend(ctx context.Context, c Change) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := Entry{ID: l.next(), Run: l.head.Run, Time: time.Now().UTC(), State: Intended, Change: c}
	if err := l.write(line{ID: e.ID, State: Intended, Change: &c}); err != nil {
		return e, fmt.Errorf("intent to %s: %w", c.What, err)
	}
	l.entries = append(l.entries, e)
	if l.mirror == nil {
		return e, nil
	}
	if err := l.mirror.Put(ctx, e); err != nil {
		return e, fmt.Errorf("intent to %s: keep a copy in the cluster: %w", c.What, err)
	}
	return e, nil
}

func (l *Log) next() int {
	if n := len(l.entries); n > 0 {
		return l.entries[n-1].ID + 1
	}
	return 1
}

// Made writes down that the change returned, and with what error.
func (l *Log) Made(e Entry, result error) error {
	return l.set(e, line{ID: e.ID, State: Made, Error: text(result)})
}

// Do is Intend, change, Made. If the first fails nothing is changed.
func (l *Log) Do(ctx context.Context, c Change, change func(context.Context) error) (Entry, error) {
	e, err := l.Intend(ctx, c)
	if err != nil {
		return e, err
	}
	result := change(ctx)
	return e, errors.Join(result, l.Made(e, result))
}

// set appends a later state of an entry.
func (l *Log) set(e Entry, ln line) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.entries, func(x Entry) bool { return x.ID == e.ID })
	if i < 0 {
		return fmt.Errorf("undo log: no entry %d", e.ID)
	}
	if l.entries[i].State == Undone {
		return nil
	}
	l.entries[i].State = ln.State
	if err := l.write(ln); err != nil {
		return fmt.Errorf("undo log: entry %d is %s: %w", e.ID, ln.State, err)
	}
	return nil
}

// Pending are the entries that are not undone, the newest first.
func (l *Log) Pending() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Entry
	for _, e := range slices.Backward(l.entries) {
		if e.State != Undone {
			out = append(out, e)
		}
	}
	return out
}

// Close unlocks the file. What is pending stays so.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// write appends one line and waits until it is on the disk. Without a file it does nothing.
func (l *Log) write(ln line) error {
	if l.file == nil {
		return nil
	}
	ln.Time = time.Now().UTC()
	data, err := json.Marshal(ln)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(data, '\n')); err != nil {
		return err
	}
	return l.file.Sync()
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
