package recordings

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"shakedown.dev/shakedown/standin/state"
)

const sid = "11111111-2222-4333-8444-555555555555"

func storages(t *testing.T) map[string]*Storage {
	t.Helper()
	store, err := state.OpenLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return map[string]*Storage{"disk": OnDisk(t.TempDir()), "shared": Shared(store)}
}

func TestUploadInParts(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789"), 150_000) // several pieces of the shared store
	for name, s := range storages(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			u, err := s.Create(ctx, sid)
			if err != nil {
				t.Fatal(err)
			}
			if all, err := s.Uploads(ctx); err != nil || len(all) != 1 || len(all[0].Parts) != 0 {
				t.Fatalf("an upload without parts: %v and %v", all, err)
			}
			for n, data := range map[int][]byte{11: []byte("tail"), 2: big, 1: []byte("head")} {
				if err := s.PutPart(ctx, u, n, data); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Open(ctx, sid); !errors.Is(err, ErrNotFound) {
				t.Fatalf("before it is complete: %v", err)
			}
			if err := s.Complete(ctx, u); err != nil {
				t.Fatal(err)
			}
			if got := read(t, s); got != "head"+string(big)+"tail" {
				t.Errorf("recording of %d bytes, want the parts by number", len(got))
			}
			if all, err := s.Uploads(ctx); err != nil || len(all) != 0 {
				t.Errorf("left over: %v and %v", all, err)
			}
			if err := s.Complete(ctx, u); !errors.Is(err, ErrNotFound) {
				t.Errorf("completed twice: %v", err)
			}
		})
	}
}

func TestALaterRecordingReplacesALonger(t *testing.T) {
	for name, s := range storages(t) {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{strings.Repeat("x", 2*pieceSize+5), "short"} {
				if err := s.Store(t.Context(), sid, strings.NewReader(text)); err != nil {
					t.Fatal(err)
				}
			}
			if got := read(t, s); got != "short" {
				t.Errorf("read %d bytes, want the later one", len(got))
			}
		})
	}
}

func TestNamesFromOutsideStayInside(t *testing.T) {
	for name, s := range storages(t) {
		for _, id := range []string{"", "../../etc/passwd", "x/y"} {
			if _, err := s.Create(t.Context(), id); !errors.Is(err, errBadID) {
				t.Errorf("%s: create %q: %v", name, id, err)
			}
			if _, err := s.Open(t.Context(), id); !errors.Is(err, errBadID) {
				t.Errorf("%s: open %q: %v", name, id, err)
			}
			if err := s.Store(t.Context(), id, strings.NewReader("")); !errors.Is(err, errBadID) {
				t.Errorf("%s: store %q: %v", name, id, err)
			}
		}
	}
}

func read(t *testing.T, s *Storage) string {
	t.Helper()
	f, err := s.Open(context.Background(), sid)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
