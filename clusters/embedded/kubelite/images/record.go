package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// record is what a name meant when it was last fetched.
type record struct {
	Name   string // full
	ID     string
	Tag    string // for RepoTags
	Digest string // for RepoDigests
	Size   uint64
	Image  Image // without ID and Layers
	Layers []layerRef
	Stamp  string `json:",omitempty"` // of the source, when this was fetched
}

// layerRef is a layer of the cache, or a directory of this machine.
type layerRef struct{ Key, Dir string }

func (s *Store) nameFile(full string) string {
	return filepath.Join(s.cache.dir, "names", s.cache.form+"-"+hexKey(full)+".json")
}

func (s *Store) saveName(rec record) error { return writeJSON(s.nameFile(rec.Name), rec) }

// loadName returns what a registry's name meant when last pulled, by this run or
// an earlier one, if every layer is still there and it was pulled from where it
// would be pulled from now.
func (s *Store) loadName(full, stamp string) (record, error) {
	var rec record
	err := readJSON(s.nameFile(full), &rec)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (rec.Stamp != stamp || !s.complete(rec)) {
		return rec, ErrNotFound
	}
	return rec, err
}

func (s *Store) complete(rec record) bool {
	for _, layer := range rec.Layers {
		if layer.Dir == "" && !s.cache.present(layer.Key) {
			return false
		}
	}
	return true
}

// records returns everything present, pulled or fetched from this machine.
func (s *Store) records() ([]record, error) {
	s.mu.Lock()
	recs := slices.Collect(maps.Values(s.local))
	s.mu.Unlock()
	files, err := filepath.Glob(filepath.Join(s.cache.dir, "names", s.cache.form+"-*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		var rec record
		err := readJSON(file, &rec)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	recs = slices.DeleteFunc(recs, func(rec record) bool { return !s.complete(rec) })
	slices.SortFunc(recs, func(a, b record) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Name, b.Name))
	})
	return recs, nil
}

// List returns the images present, each with all its names.
func (s *Store) List(context.Context) ([]Info, error) {
	recs, err := s.records()
	if err != nil {
		return nil, err
	}
	var list []Info
	for _, rec := range recs {
		if len(list) == 0 || list[len(list)-1].ID != rec.ID {
			list = append(list, Info{ID: rec.ID, Size: rec.Size, User: rec.Image.User})
		}
		info := &list[len(list)-1]
		if rec.Tag != "" && !slices.Contains(info.RepoTags, rec.Tag) {
			info.RepoTags = append(info.RepoTags, rec.Tag)
		}
		if rec.Digest != "" && !slices.Contains(info.RepoDigests, rec.Digest) {
			info.RepoDigests = append(info.RepoDigests, rec.Digest)
		}
	}
	return list, nil
}

// Remove forgets an image by name, or by ID with all its names. Its layers stay
// until Prune: another run may be standing on them.
func (s *Store) Remove(_ context.Context, name string) error {
	full := name
	if !strings.HasPrefix(name, "sha256:") {
		r, err := parseRef(name)
		if err != nil {
			return err
		}
		full = r.full
	}
	recs, err := s.records()
	if err != nil {
		return err
	}
	var errs []error
	for _, rec := range recs {
		if rec.Name != full && rec.ID != full {
			continue
		}
		s.mu.Lock()
		delete(s.local, rec.Name)
		s.mu.Unlock()
		if err := os.Remove(s.nameFile(rec.Name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// stamp says what a source looks like now, so that one that was built again is
// read again. It reads no contents; of a registry it is the other name given.
func (s *Store) stamp(from source) string {
	switch from.kind {
	case kindRegistry:
		return from.arg
	case kindArchive:
		return fileStamp(from.arg)
	case kindOCI:
		return fileStamp(filepath.Join(from.arg, "index.json"))
	case kindHost:
		return hostStamp(from.arg)
	}
	return ""
}

func fileStamp(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return "none"
	}
	return fmt.Sprintf("%s %d %d %o;", file, info.Size(), info.ModTime().UnixNano(), info.Mode())
}

// hostStamp is that of a folder: of its files too if they are copied elsewhere.
func hostStamp(dir string) string {
	stamp := fileStamp(filepath.Join(dir, SpecFile))
	spec, err := readSpec(dir)
	if err != nil || spec.MountPath == "" {
		return stamp
	}
	files, err := filesOf(dir)
	if err != nil {
		return stamp + err.Error()
	}
	for _, name := range sortedKeys(files) {
		stamp += fileStamp(files[name])
	}
	return stamp
}
