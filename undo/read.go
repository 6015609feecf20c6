package undo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// Open opens the log of an earlier run to heal from it. It fails with ErrLocked while that run goes on.
// A last line that was cut off is left out: its change was not made, because intents are synced before.
func Open(path string, mirror Mirror) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, fmt.Errorf("open undo log: %w", err)
	}
	l := &Log{mirror: mirror, file: f}
	if err := errors.Join(lock(f), l.load(f)); err != nil {
		return nil, errors.Join(fmt.Errorf("undo log %s: %w", path, err), f.Close())
	}
	return l, nil
}

// SetMirror says where the copy of the intents is, once the cluster was found by the log's head.
func (l *Log) SetMirror(m Mirror) { l.mirror = m }

// load reads the file and cuts a torn last line off.
func (l *Log) load(f *os.File) error {
	data, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	for n, raw := range slices.Collect(bytes.Lines(whole)) {
		if err := l.apply(raw); err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	if l.head.Run == "" {
		return errors.New("it does not begin with a head: the run ended before it changed anything")
	}
	if len(whole) < len(data) {
		return f.Truncate(int64(len(whole)))
	}
	return nil
}

func (l *Log) apply(raw []byte) error {
	var ln line
	if err := json.Unmarshal(raw, &ln); err != nil {
		return err
	}
	if ln.Head != nil {
		l.head, l.begun = *ln.Head, ln.Time
		return nil
	}
	if ln.Change != nil {
		l.entries = append(l.entries, Entry{ID: ln.ID, Run: l.head.Run, Time: ln.Time, State: ln.State, Change: *ln.Change})
		return nil
	}
	i := slices.IndexFunc(l.entries, func(e Entry) bool { return e.ID == ln.ID })
	if i < 0 {
		return fmt.Errorf("entry %d has no intent", ln.ID)
	}
	l.entries[i].State = ln.State
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
