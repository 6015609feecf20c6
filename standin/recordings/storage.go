package recordings

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"shakedown.dev/shakedown/standin/state"
)

// Storage keeps recordings: `<session>.tar` when finished, and
// `multi/<upload>/<session>/<n>.part` before (lib/events/filesessions).
type Storage struct{ blobs blobs }

// OnDisk keeps recordings in dir (`<data_dir>/log/records` in the real program).
func OnDisk(dir string) *Storage { return &Storage{disk(dir)} }

// Shared keeps recordings in store, for all auths.
func Shared(store state.Store) *Storage { return &Storage{shared{store}} }

// Upload is a recording on its way.
type Upload struct {
	ID        string
	SessionID string
	Parts     []int
}

func final(sid string) string { return sid + ".tar" }

func partName(uploadID, sid string, n int) string {
	return path.Join("multi", uploadID, sid, strconv.Itoa(n)+".part")
}

// Store keeps a whole recording; one that is there already is replaced.
func (s *Storage) Store(ctx context.Context, sid string, r io.Reader) error {
	if err := checkID(sid); err != nil {
		return err
	}
	if err := s.blobs.write(ctx, final(sid), r); err != nil {
		return fmt.Errorf("store recording %s: %w", sid, err)
	}
	return nil
}

// Open reads a finished recording, or fails with ErrNotFound.
func (s *Storage) Open(ctx context.Context, sid string) (io.ReadCloser, error) {
	if err := checkID(sid); err != nil {
		return nil, err
	}
	return s.blobs.open(ctx, final(sid))
}

// Create starts an upload. An empty first part keeps its place, so that it is
// found again when the auth dies before the first part is full.
func (s *Storage) Create(ctx context.Context, sid string) (Upload, error) {
	if err := checkID(sid); err != nil {
		return Upload{}, err
	}
	u := Upload{ID: uuid.NewString(), SessionID: sid}
	return u, s.PutPart(ctx, u, 0, nil)
}

// PutPart stores part n (from 1) of an upload.
func (s *Storage) PutPart(ctx context.Context, u Upload, n int, data []byte) error {
	return s.PutStream(ctx, u, n, bytes.NewReader(data))
}

// PutStream is PutPart for a part that is still coming in; one that breaks off
// leaves nothing.
func (s *Storage) PutStream(ctx context.Context, u Upload, n int, r io.Reader) error {
	if err := s.blobs.write(ctx, partName(u.ID, u.SessionID, n), r); err != nil {
		return fmt.Errorf("store part %d of recording %s: %w", n, u.SessionID, err)
	}
	return nil
}

// Complete joins an upload's parts to the recording and forgets the upload.
func (s *Storage) Complete(ctx context.Context, u Upload) error {
	readers, err := s.parts(ctx, u)
	if err != nil {
		return err
	}
	if err := s.Store(ctx, u.SessionID, io.MultiReader(readers...)); err != nil {
		return err
	}
	return s.Abort(ctx, u)
}

func (s *Storage) parts(ctx context.Context, u Upload) ([]io.Reader, error) {
	found, err := s.Find(ctx, u.ID)
	if err != nil {
		return nil, err
	}
	var readers []io.Reader
	for _, n := range found.Parts {
		r, err := s.blobs.open(ctx, partName(u.ID, u.SessionID, n))
		if err != nil {
			return nil, fmt.Errorf("read part %d of recording %s: %w", n, u.SessionID, err)
		}
		defer r.Close()
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		readers = append(readers, bytes.NewReader(data))
	}
	return readers, nil
}

// Abort removes an upload's parts.
func (s *Storage) Abort(ctx context.Context, u Upload) error {
	found, err := s.Find(ctx, u.ID)
	if err != nil {
		return err
	}
	for _, n := range append([]int{0}, found.Parts...) {
		if err := s.blobs.remove(ctx, partName(u.ID, u.SessionID, n)); err != nil {
			return err
		}
	}
	return nil
}

// Find returns the upload called id, or fails with ErrNotFound.
func (s *Storage) Find(ctx context.Context, id string) (Upload, error) {
	uploads, err := s.list(ctx, path.Join("multi", id))
	if err != nil {
		return Upload{}, err
	}
	if len(uploads) == 0 {
		return Upload{}, fmt.Errorf("upload %s: %w", id, ErrNotFound)
	}
	return uploads[0], nil
}

// Uploads lists what is on its way.
func (s *Storage) Uploads(ctx context.Context) ([]Upload, error) { return s.list(ctx, "multi") }

func (s *Storage) list(ctx context.Context, dir string) ([]Upload, error) {
	names, err := s.blobs.list(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("list uploads: %w", err)
	}
	byID := map[string]*Upload{}
	for _, name := range names {
		fields := strings.Split(name, "/")
		if len(fields) != 4 {
			continue
		}
		u := byID[fields[1]]
		if u == nil {
			u = &Upload{ID: fields[1], SessionID: fields[2]}
			byID[fields[1]] = u
		}
		if n, err := strconv.Atoi(strings.TrimSuffix(fields[3], ".part")); err == nil && n > 0 {
			u.Parts = append(u.Parts, n)
		}
	}
	out := make([]Upload, 0, len(byID))
	for _, u := range byID {
		slices.Sort(u.Parts)
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b Upload) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// errBadID keeps names from outside from leaving the folder.
var errBadID = errors.New("a session ID must be a UUID")

func checkID(sid string) error {
	if _, err := uuid.Parse(sid); err != nil {
		return fmt.Errorf("session ID %q: %w", sid, errBadID)
	}
	return nil
}
