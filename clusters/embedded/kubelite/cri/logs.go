package cri

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// maxLogLine is where a longer line is cut into parts, 16 KiB as in containerd.
const maxLogLine = 16 << 10

// logFile is a container's log in the CRI format: time, stream, P (a part of a
// line) or F (its end), text.
type logFile struct {
	mu   sync.Mutex
	path string
	f    *os.File // nil: the pod asked for no log
	now  func() time.Time
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path, now: time.Now}
	if path == "" {
		return l, nil
	}
	return l, l.reopen()
}

// reopen opens the path again, for the kubelet has renamed the file.
func (l *logFile) reopen() error {
	if l.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return fmt.Errorf("open container log: %w", err)
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("open container log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		l.f.Close()
	}
	l.f = f
	return nil
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

func (l *logFile) write(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	_, err := l.f.Write(b)
	return err
}

// stream is the writer of one of the log's streams. It holds back text until
// its line ends, grows past maxLogLine, or the stream is closed.
func (l *logFile) stream(name string) *logStream { return &logStream{log: l, name: name} }

type logStream struct {
	log  *logFile
	name string
	rest []byte // an unfinished line
	out  []byte
}

// Write never fails: a full disk must not stop the container. What could not be
// written is missing from the log.
func (s *logStream) Write(p []byte) (int, error) {
	s.out = s.out[:0]
	stamp := s.stamp()
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		room := maxLogLine - len(s.rest)
		switch {
		case end >= 0 && end <= room:
			s.emit(stamp, 'F', rest[:end])
			rest = rest[end+1:]
		case len(rest) > room:
			s.emit(stamp, 'P', rest[:room])
			rest = rest[room:]
		default:
			s.rest = append(s.rest, rest...)
			rest = nil
		}
	}
	if len(s.out) > 0 {
		s.log.write(s.out)
	}
	return len(p), nil
}

// flush writes an unfinished line as a part: its end never came.
func (s *logStream) flush() {
	if len(s.rest) == 0 {
		return
	}
	s.out = s.out[:0]
	s.emit(s.stamp(), 'P', nil)
	s.log.write(s.out)
}

func (s *logStream) stamp() []byte {
	return s.log.now().AppendFormat(nil, time.RFC3339Nano)
}

func (s *logStream) emit(stamp []byte, tag byte, text []byte) {
	s.out = append(append(append(append(s.out, stamp...), ' '), s.name...), ' ', tag, ' ')
	s.out = append(append(append(s.out, s.rest...), text...), '\n')
	s.rest = s.rest[:0]
}
