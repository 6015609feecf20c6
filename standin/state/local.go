package state

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Local is a Store in memory with a journal on disk. The journal is rewritten
// when it is opened and when it has grown to several times what it holds.
type Local struct {
	mu      sync.Mutex
	path    string
	items   map[string]Item
	journal *os.File
	lines   int
}

type line struct {
	Item
	Delete bool `json:"d,omitempty"`
}

// compactAfter is how many journal lines beyond the live items are put up with.
const compactAfter = 4096

// OpenLocal opens the journal in dir, or starts one. Its files are for the
// owner alone: they hold private keys.
func OpenLocal(dir string) (*Local, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open backend: %w", err)
	}
	l := &Local{path: filepath.Join(dir, "standin.jsonl"), items: map[string]Item{}}
	if err := l.load(); err != nil {
		return nil, fmt.Errorf("open backend %s: %w", l.path, err)
	}
	return l, l.compact()
}

func (l *Local) load() error {
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(make([]byte, 64*1024), 64<<20)
	for sc.Scan() {
		var entry line
		if json.Unmarshal(sc.Bytes(), &entry) != nil {
			continue // the line being written when the process was killed
		}
		if entry.Delete {
			delete(l.items, entry.Key)
		} else {
			l.items[entry.Key] = entry.Item
		}
	}
	return sc.Err()
}

// compact writes the live items to a new journal and takes that one into use.
func (l *Local) compact() error {
	next := l.path + ".new"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	w, now := bufio.NewWriter(f), time.Now()
	enc := json.NewEncoder(w)
	for key, item := range l.items {
		if item.Expired(now) {
			delete(l.items, key)
			continue
		}
		if err := enc.Encode(line{Item: item}); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(w.Flush(), os.Rename(next, l.path)); err != nil {
		return errors.Join(err, f.Close())
	}
	if l.journal != nil {
		l.journal.Close()
	}
	l.journal, l.lines = f, len(l.items)
	return nil
}

func (l *Local) write(entry line) error {
	b, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if _, err := l.journal.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write backend: %w", err)
	}
	l.lines++
	if l.lines > len(l.items)*4+compactAfter {
		return l.compact()
	}
	return nil
}

// Get implements Store.
func (l *Local) Get(_ context.Context, key string) (Item, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	item, ok := l.items[key]
	if !ok || item.Expired(time.Now()) {
		return Item{}, fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return item, nil
}

// List implements Store.
func (l *Local) List(_ context.Context, prefix string) ([]Item, error) {
	return l.where(func(key string) bool { return strings.HasPrefix(key, prefix) }), nil
}

// Range implements Store.
func (l *Local) Range(_ context.Context, from, to string) ([]Item, error) {
	return l.where(func(key string) bool { return from <= key && key < to }), nil
}

func (l *Local) where(wanted func(key string) bool) []Item {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Item
	now := time.Now()
	for key, item := range l.items {
		if wanted(key) && !item.Expired(now) {
			out = append(out, item)
		}
	}
	slices.SortFunc(out, func(a, b Item) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Put implements Store.
func (l *Local) Put(_ context.Context, item Item) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items[item.Key] = item
	return l.write(line{Item: item})
}

// Create implements Store.
func (l *Local) Create(_ context.Context, item Item) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.items[item.Key]; ok && !old.Expired(time.Now()) {
		return fmt.Errorf("%s: %w", item.Key, ErrExists)
	}
	l.items[item.Key] = item
	return l.write(line{Item: item})
}

// Delete implements Store.
func (l *Local) Delete(_ context.Context, key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, ok := l.items[key]
	if !ok {
		return fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	delete(l.items, key)
	if err := l.write(line{Item: Item{Key: key}, Delete: true}); err != nil {
		return err
	}
	if old.Expired(time.Now()) {
		return fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return nil
}

// Close implements Store.
func (l *Local) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal.Close()
}
