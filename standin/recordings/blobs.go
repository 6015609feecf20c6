// Package recordings keeps finished recordings and the parts of those that are
// on their way: on local disk where the real program puts them, or in etcd for
// several auths.
package recordings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shakedown.dev/shakedown/standin/state"
)

// ErrNotFound is what Open fails with.
var ErrNotFound = errors.New("recording not found")

// blobs is a flat store of files by slash-separated name.
type blobs interface {
	// write replaces the file called name with all of r.
	write(ctx context.Context, name string, r io.Reader) error
	open(ctx context.Context, name string) (io.ReadCloser, error)
	// list returns the names under dir.
	list(ctx context.Context, dir string) ([]string, error)
	remove(ctx context.Context, name string) error
}

// disk keeps blobs as files under a folder.
type disk string

func (d disk) path(name string) string { return filepath.Join(string(d), filepath.FromSlash(name)) }

func (d disk) write(_ context.Context, name string, r io.Reader) error {
	path := d.path(name)
	f, err := os.CreateTemp(filepath.Dir(path), ".incoming-*")
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		f, err = os.CreateTemp(filepath.Dir(path), ".incoming-*")
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), path)
}

func (d disk) open(_ context.Context, name string) (io.ReadCloser, error) {
	f, err := os.Open(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return f, err
}

func (d disk) list(_ context.Context, dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(d.path(dir), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".incoming-") {
			return err
		}
		rel, err := filepath.Rel(string(d), path)
		names = append(names, filepath.ToSlash(rel))
		return err
	})
	return names, err
}

func (d disk) remove(_ context.Context, name string) error {
	err := os.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// The two folders of an upload are of no use when they are empty. The one
	// above them stays: another upload may be about to make its own in it.
	if dir := filepath.Dir(d.path(name)); strings.HasPrefix(name, "multi/") && os.Remove(dir) == nil {
		_ = os.Remove(filepath.Dir(dir))
	}
	return err
}

// shared keeps blobs in a state.Store, in pieces that etcd takes.
type shared struct{ store state.Store }

const (
	pieceSize   = 512 * 1024
	sharedRoot  = "recordings/"
	pieceFormat = "%s%s/%08d"
)

// write puts the first piece last, so that a recording is there all or not at all.
func (s shared) write(ctx context.Context, name string, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.remove(ctx, name); err != nil {
		return err
	}
	for i := max(0, len(data)-1) / pieceSize; i >= 0; i-- {
		piece := data[i*pieceSize : min(len(data), (i+1)*pieceSize)]
		item := state.Item{Key: fmt.Sprintf(pieceFormat, sharedRoot, name, i), Value: piece}
		if err := s.store.Put(ctx, item); err != nil {
			return err
		}
	}
	return nil
}

func (s shared) open(ctx context.Context, name string) (io.ReadCloser, error) {
	items, err := s.store.List(ctx, sharedRoot+name+"/")
	if err != nil {
		return nil, err
	}
	if len(items) == 0 || items[0].Key != fmt.Sprintf(pieceFormat, sharedRoot, name, 0) {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	var readers []io.Reader
	for _, item := range items {
		readers = append(readers, bytes.NewReader(item.Value))
	}
	return io.NopCloser(io.MultiReader(readers...)), nil
}

func (s shared) list(ctx context.Context, dir string) ([]string, error) {
	items, err := s.store.List(ctx, sharedRoot+dir+"/")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, item := range items {
		name := strings.TrimPrefix(item.Key, sharedRoot)
		names = append(names, name[:strings.LastIndexByte(name, '/')])
	}
	return slices.Compact(names), nil
}

func (s shared) remove(ctx context.Context, name string) error {
	items, err := s.store.List(ctx, sharedRoot+name+"/")
	if err != nil {
		return err
	}
	for _, item := range items {
		if err := s.store.Delete(ctx, item.Key); err != nil && !errors.Is(err, state.ErrNotFound) {
			return err
		}
	}
	return nil
}
