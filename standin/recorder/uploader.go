package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/protostream"
)

// concurrentUploads is the real program's limit.
const concurrentUploads = 10

// errCorrupted marks a recording that cannot be read; it is put aside.
var errCorrupted = errors.New("recording is corrupted")

// runUploader scans for finished recordings; each scan with a failure waits longer for the next, up to UploaderMaxWait.
func (h *Host) runUploader(ctx context.Context) {
	step, most := h.cfg.Scale.Of(process.UploaderScan), h.cfg.Scale.Of(process.UploaderMaxWait)
	wait := step
	for sleep(ctx, wait) {
		if err := h.scan(ctx); err != nil {
			wait = min(wait+step, most)
			h.cfg.Log.Warn("upload recordings", "err", err, "next", wait)
			continue
		}
		wait = step
	}
}

// scan uploads every finished recording, at most concurrentUploads at a time.
func (h *Host) scan(ctx context.Context) error {
	entries, err := os.ReadDir(h.scanDir())
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(concurrentUploads)
	for _, e := range entries {
		session, ok := strings.CutSuffix(e.Name(), ".tar")
		if !ok || e.IsDir() {
			continue
		}
		group.Go(func() error { return h.upload(ctx, session) })
	}
	return group.Wait()
}

func (h *Host) upload(ctx context.Context, session string) error {
	path := h.tarPath(session)
	errorPath := filepath.Join(h.scanDir(), session+".error")
	if _, err := os.Stat(errorPath); err == nil {
		return errors.Join(
			os.Rename(path, filepath.Join(h.corruptedDir(), session+".tar")),
			os.Rename(errorPath, filepath.Join(h.corruptedDir(), session+".error")))
	}
	f, unlock, err := lockFile(path, os.O_RDWR)
	if errors.Is(err, errLocked) || errors.Is(err, os.ErrNotExist) {
		return nil // another service of this host has it
	}
	if err != nil {
		return err
	}
	defer unlock()
	err = h.send(ctx, session, f)
	if errors.Is(err, errCorrupted) {
		h.cfg.Log.Warn("recording will not be uploaded", "session", session, "err", err)
		return os.WriteFile(errorPath, []byte(err.Error()), 0o600)
	}
	return err
}

// send checks and uploads one recording, then removes it. A checkpoint file lies beside it meanwhile.
func (h *Host) send(ctx context.Context, session string, f *os.File) error {
	if gone(f) {
		return nil
	}
	if err := readable(f); err != nil {
		return fmt.Errorf("%w: %w", errCorrupted, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	checkpoint := filepath.Join(h.scanDir(), session+".checkpoint")
	if err := os.WriteFile(checkpoint, nil, 0o600); err != nil {
		return err
	}
	if err := h.cfg.Auth.UploadRecording(ctx, session, f); err != nil {
		return fmt.Errorf("upload recording of session %s: %w", session, err)
	}
	return errors.Join(os.Remove(f.Name()), os.Remove(checkpoint))
}

// gone reports whether another service uploaded and removed the file between our opening and locking it.
func gone(f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return true
	}
	now, err := os.Stat(f.Name())
	return err != nil || !os.SameFile(mine, now)
}

func readable(r io.Reader) error {
	dec := protostream.NewDecoder(r)
	for {
		switch _, err := dec.Next(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// sleep waits, and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
