package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/gravitational/teleport/api/types/events"

	"shakedown.dev/shakedown/standin/protostream"
)

func (h *Host) makeDirs() error {
	for _, dir := range []string{h.multiDir(), h.corruptedDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make recording folder: %w", err)
		}
	}
	return nil
}

// fileSink gathers a recording in parts on the local disk.
type fileSink struct {
	host               *Host
	session, upload    string
	mu                 sync.Mutex
	enc                protostream.Encoder
	part               int // number of the part being gathered; 0: none reserved
	last               int // number of the last part written
	timer              *time.Timer
	touched            time.Time
	finished, reserved bool
}

// openFile makes the upload's folder and reserves the first part, so that a full disk is noticed at once.
func (h *Host) openFile(session string) (*fileSink, error) {
	s := &fileSink{host: h, session: session, upload: uuid.NewString()}
	if err := os.MkdirAll(h.uploadDir(s.upload, session), 0o700); err != nil {
		return nil, fmt.Errorf("create upload: %w", err)
	}
	return s, s.reserve()
}

func (s *fileSink) path(number int, ext string) string {
	return filepath.Join(s.host.uploadDir(s.upload, s.session), strconv.Itoa(number)+ext)
}

// reserve keeps room for the next part. The file is sparse, where the real one writes it full of zeros.
func (s *fileSink) reserve() error {
	s.part = s.last + 1
	f, err := os.OpenFile(s.path(s.part, ".reservation"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("reserve upload part: %w", err)
	}
	defer f.Close()
	s.reserved = true
	return f.Truncate(protostream.AsyncPart + protostream.MaxMessage)
}

func (s *fileSink) write(event events.AuditEvent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return errors.New("recording is finished")
	}
	if !s.reserved {
		if err := s.reserve(); err != nil {
			return err
		}
	}
	if err := s.enc.Append(event); err != nil {
		return err
	}
	s.touch()
	if s.enc.CompressedSize() >= protostream.AsyncPart {
		return s.cut(false)
	}
	return nil
}

// touch notes activity and arms the flush of what stays quiet. One timer runs per period, not per event.
func (s *fileSink) touch() {
	s.touched = time.Now()
	if s.timer == nil {
		s.timer = time.AfterFunc(s.host.flushIdle(), s.flushQuiet)
	}
}

func (s *fileSink) flushQuiet() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return
	}
	if quiet := time.Since(s.touched); quiet < s.host.flushIdle() {
		s.timer.Reset(s.host.flushIdle() - quiet)
		return
	}
	s.timer = nil
	if err := s.cut(false); err != nil {
		s.host.cfg.Log.Error("flush recording", "session", s.session, "err", err)
	}
}

// cut writes the part gathered so far in place of its reservation.
func (s *fileSink) cut(last bool) error {
	data := s.enc.Cut(last)
	if data == nil {
		return nil
	}
	reservation := s.path(s.part, ".reservation")
	if err := os.WriteFile(reservation, data, 0o600); err != nil {
		return fmt.Errorf("write part: %w", err)
	}
	if err := os.Rename(reservation, s.path(s.part, ".part")); err != nil {
		return fmt.Errorf("write part: %w", err)
	}
	s.last, s.reserved = s.part, false
	return nil
}

func (s *fileSink) complete(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	if s.timer != nil {
		s.timer.Stop()
	}
	if err := s.cut(true); err != nil {
		return err
	}
	return s.host.completeUpload(s.upload, s.session)
}

// discard throws the recording away.
func (s *fileSink) discard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	if s.timer != nil {
		s.timer.Stop()
	}
	return os.RemoveAll(filepath.Join(s.host.multiDir(), s.upload))
}

// parts lists the numbers of an upload's parts, sorted.
func (h *Host) parts(upload, session string) ([]int, error) {
	entries, err := os.ReadDir(h.uploadDir(upload, session))
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".part")
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// completeUpload joins an upload's parts to <session>.tar, where the uploader finds it, and removes them. The real
// program writes under that name from the start (lib/events/filesessions/filestream.go): an uploader that opens the
// file before it is locked sends an empty recording. Here that is no accident that may happen, so the name comes last.
func (h *Host) completeUpload(upload, session string) error {
	numbers, err := h.parts(upload, session)
	if err != nil {
		return err
	}
	incoming := h.tarPath(session) + ".incoming"
	f, unlock, err := lockFile(incoming, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return fmt.Errorf("complete upload of session %s: %w", session, err)
	}
	defer unlock()
	for _, n := range numbers {
		if err := appendFile(f, filepath.Join(h.uploadDir(upload, session), strconv.Itoa(n)+".part")); err != nil {
			return errors.Join(fmt.Errorf("complete upload of session %s: %w", session, err), os.Remove(incoming))
		}
	}
	if err := os.Rename(incoming, h.tarPath(session)); err != nil {
		return fmt.Errorf("complete upload of session %s: %w", session, err)
	}
	return os.RemoveAll(filepath.Join(h.multiDir(), upload))
}

func appendFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
