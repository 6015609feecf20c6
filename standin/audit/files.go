package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gravitational/teleport/api/types/events"
)

// Files is the log in `<data_dir>/log/<host uuid>/<day>.log`, one JSON object a
// line, with the link `<data_dir>/log/events.log` to the file of the day.
type Files struct {
	mu   sync.Mutex
	dir  string
	link string
	day  string
	file *os.File
}

// OpenFiles opens the log of host under logDir.
func OpenFiles(logDir, host string) (*Files, error) {
	f := &Files{dir: filepath.Join(logDir, host), link: filepath.Join(logDir, "events.log")}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	return f, f.rotate(time.Now())
}

// A file is called 2026-11-30.00:00:00.log. The time is no part of the layout:
// Go takes ".00" for a fraction of a second.
const (
	dayFormat = "2006-01-02"
	daySuffix = ".00:00:00.log"
)

func (f *Files) rotate(now time.Time) error {
	day := now.UTC().Format(dayFormat)
	if day == f.day {
		return nil
	}
	path := filepath.Join(f.dir, day+daySuffix)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open audit log: %w", err)
	}
	if f.file != nil {
		f.file.Close()
	}
	f.file, f.day = file, day
	if err := os.Remove(f.link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(filepath.Join(filepath.Base(f.dir), day+daySuffix), f.link)
}

// Append implements Log.
func (f *Files) Append(_ context.Context, event events.AuditEvent) error {
	line, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("encode %s event: %w", event.GetType(), err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.rotate(time.Now()); err != nil {
		return err
	}
	_, err = f.file.Write(append(line, '\n'))
	return err
}

// ref is a line that a query is after, without its content.
type ref struct {
	key    string
	path   string
	offset int64
	size   int
}

// Search implements Log. It reads the files of the days asked for.
func (f *Files) Search(ctx context.Context, q Query) ([]events.AuditEvent, string, error) {
	refs, err := f.find(ctx, q)
	if err != nil {
		return nil, "", err
	}
	keys := func(r ref) string { return r.key }
	return page(refs, q, keys, func(r ref) (events.AuditEvent, error) { return r.read() })
}

func (f *Files) find(ctx context.Context, q Query) ([]ref, error) {
	paths, err := filepath.Glob(filepath.Join(f.dir, "*.log"))
	if err != nil {
		return nil, err
	}
	var refs []ref
	for _, path := range paths {
		day, err := time.Parse(dayFormat, strings.TrimSuffix(filepath.Base(path), daySuffix))
		// Events carry the time of their host: look into the neighbours too.
		if err != nil || day.After(q.To.Add(24*time.Hour)) || day.Add(48*time.Hour).Before(q.From) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if refs, err = scan(path, q, refs); err != nil {
			return nil, fmt.Errorf("read audit log %s: %w", path, err)
		}
	}
	return refs, nil
}

func scan(path string, q Query, refs []ref) ([]ref, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, offset := bufio.NewReaderSize(file, 64*1024), int64(0)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return refs, nil // a line without an end is still being written
		}
		if err != nil {
			return nil, err
		}
		if key, ok := q.wants(line); ok {
			refs = append(refs, ref{key: key, path: path, offset: offset, size: len(line)})
		}
		offset += int64(len(line))
	}
}

// wants looks at a line without decoding all of it.
func (q Query) wants(line []byte) (string, bool) {
	if len(q.Types) > 0 && !slices.Contains(q.Types, stringField(line, "event")) {
		return "", false
	}
	if q.SessionID != "" && stringField(line, "sid") != q.SessionID {
		return "", false
	}
	at, err := time.Parse(time.RFC3339Nano, stringField(line, "time"))
	if err != nil || at.Before(q.From) || !at.Before(q.To) {
		return "", false
	}
	return eventKey(at, stringField(line, "uid")), true
}

// eventKey sorts events by time. Times that nanoseconds cannot count to, before
// 1970 and after 2262, stand at the ends.
func eventKey(at time.Time, id string) string {
	nano := at.UnixNano()
	switch {
	case at.Year() < 1970:
		nano = 0
	case at.Year() > 2261:
		nano = math.MaxInt64
	}
	return fmt.Sprintf("%020d-%s", nano, id)
}

// stringField returns the first string value of a key in a JSON line. The keys
// asked for stand before any value that a user chose.
func stringField(line []byte, key string) string {
	_, rest, ok := bytes.Cut(line, []byte(`"`+key+`":"`))
	if !ok {
		return ""
	}
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}

func (r ref) read() (events.AuditEvent, error) {
	file, err := os.Open(r.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	line := make([]byte, r.size)
	if _, err := file.ReadAt(line, r.offset); err != nil {
		return nil, err
	}
	return decode(line)
}

// Close implements Log.
func (f *Files) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}
