package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Builtin is an image that the program brings along.
type Builtin struct {
	// Name is the repository; any tag of it will do.
	Name string
	// Spec says how it starts. Its MountPath is where Files appear.
	Spec Spec
	// Files maps names below Spec.MountPath to files of this machine. It may be
	// nil: the image is then this machine's root alone.
	Files map[string]string
}

// HostImage is the name of the built-in that is this machine's own root, so that
// a shell is at hand without any registry.
const HostImage = "shakedown.dev/host"

// EtcdImage is the name of the built-in etcd.
const EtcdImage = "shakedown.dev/etcd"

// Host returns the built-in of this machine's own root; it starts a shell.
func Host() Builtin {
	return Builtin{Name: HostImage, Spec: Spec{Cmd: []string{"/bin/sh"}}}
}

// Etcd returns a built-in that runs "program etcd" and takes etcd's flags and
// environment. Program is a file of this machine.
func Etcd(program string) Builtin {
	const dir, name = "/usr/local/bin", "kubelite"
	return Builtin{
		Name:  EtcdImage,
		Spec:  Spec{MountPath: dir, Entrypoint: []string{dir + "/" + name, "etcd"}},
		Files: map[string]string{name: program},
	}
}

func (s *Store) fromBuiltin(ctx context.Context, r ref, name string) (record, error) {
	at, err := parseRef(name)
	if err != nil {
		return record{}, err
	}
	b, ok := s.builtins[at.repo]
	if !ok {
		return record{}, fmt.Errorf("no built-in image has this name")
	}
	var layers []layerRef
	if len(b.Files) > 0 {
		key, err := s.stage(ctx, b.Spec.MountPath, b.Files)
		if err != nil {
			return record{}, err
		}
		layers = []layerRef{{Key: key}}
	}
	return s.hostRecord(r, b.Spec, layers, "builtin", at.repo)
}

// fromHost makes an image of a folder over this machine's root. A folder that is
// a tree of its own is used where it is; one of programs is linked or copied to
// a tree that has them under mountPath.
func (s *Store) fromHost(ctx context.Context, r ref, dir string) (record, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return record{}, err
	}
	if !info.IsDir() {
		return record{}, fmt.Errorf("%s: not a directory", dir)
	}
	spec, err := readSpec(dir)
	if err != nil {
		return record{}, err
	}
	layer := layerRef{Dir: dir}
	if spec.MountPath != "" {
		files, err := filesOf(dir)
		if err != nil {
			return record{}, err
		}
		if layer.Key, err = s.stage(ctx, spec.MountPath, files); err != nil {
			return record{}, err
		}
		layer.Dir = ""
	}
	return s.hostRecord(r, spec, []layerRef{layer}, "host", dir)
}

// hostRecord puts layers over this machine's root. The ID is a digest of what
// describes the image, since nothing has hashed its contents.
func (s *Store) hostRecord(r ref, spec Spec, layers []layerRef, kind, from string) (record, error) {
	rec := record{Name: r.full, Tag: r.tag(), Layers: layers, Image: Image{
		Env: spec.env(), Entrypoint: spec.Entrypoint, Cmd: spec.Cmd,
		WorkingDir: spec.WorkingDir, User: spec.User, StopSignal: spec.StopSignal,
	}}
	for _, layer := range layers {
		size, err := s.layerSize(layer)
		if err != nil {
			return record{}, err
		}
		rec.Size += size
	}
	rec.Layers = append(rec.Layers, layerRef{Dir: s.cfg.HostRoot})
	text, err := json.Marshal(struct {
		Kind, From string
		Spec       Spec
		Layers     []layerRef
	}{kind, from, spec, layers})
	rec.ID = "sha256:" + hexKey(string(text))
	return rec, err
}

func (s *Store) layerSize(l layerRef) (uint64, error) {
	if l.Dir == "" {
		stat, err := s.cache.stat(l.Key)
		return stat.Bytes, err
	}
	var size uint64
	err := filepath.WalkDir(l.Dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			size += uint64(info.Size())
		}
		return err
	})
	return size, err
}

// filesOf maps the folder's files to their places on this machine. A link counts
// as the file it leads to; image.yaml and empty directories do not count.
func filesOf(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == SpecFile {
			return err
		}
		info, err := os.Stat(p)
		if err == nil && info.Mode().IsRegular() {
			files[rel] = p
		}
		return err
	})
	return files, err
}

// stage makes a layer that has the files under mountPath, and returns its key, which
// is of what they hold: the same program from another folder takes no more room.
func (s *Store) stage(ctx context.Context, mountPath string, files map[string]string) (string, error) {
	names := sortedKeys(files)
	parts := []string{"staged", mountPath}
	var seen []known
	for _, name := range names {
		info, err := os.Stat(files[name])
		if err != nil {
			return "", err
		}
		if !info.Mode().IsRegular() {
			return "", fmt.Errorf("%s: not a regular file", files[name])
		}
		sum, err := sumOf(files[name], info, &seen)
		if err != nil {
			return "", err
		}
		parts = append(parts, name, sum, info.Mode().Perm().String())
	}
	key := "host-" + hexKey(parts...)
	_, err := s.cache.ensure(ctx, key, func(root string) (layerStat, error) {
		return stageAll(ctx, filepath.Join(root, mountPath), names, files)
	})
	return key, err
}

// known is a file that was read already, under one of its names.
type known struct {
	info fs.FileInfo
	text string
}

// sumOf is the checksum of a file; one with several names is read once.
func sumOf(file string, info fs.FileInfo, seen *[]known) (string, error) {
	for _, k := range *seen {
		if os.SameFile(k.info, info) {
			return k.text, nil
		}
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	k := known{info, hex.EncodeToString(h.Sum(nil))}
	*seen = append(*seen, k)
	return k.text, nil
}

// stageAll copies the files; one with several names becomes one with several names.
func stageAll(ctx context.Context, dir string, names []string, files map[string]string) (layerStat, error) {
	var stat layerStat
	var seen []known
	for _, name := range names {
		to := filepath.Join(dir, name)
		info, err := os.Stat(files[name])
		if err != nil {
			return stat, err
		}
		first := slices.IndexFunc(seen, func(k known) bool { return os.SameFile(k.info, info) })
		if first >= 0 {
			if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Link(seen[first].text, to)); err != nil {
				return stat, err
			}
			continue
		}
		n, err := stageFile(ctx, files[name], to)
		if err != nil {
			return stat, err
		}
		seen = append(seen, known{info, to})
		stat.Bytes, stat.Inodes = stat.Bytes+n, stat.Inodes+1
	}
	return stat, nil
}

// stageFile copies a file. A hard link would be quicker, but a program rebuilt in
// place would then change under the containers that run it; where the file
// system can share blocks, the copy takes none.
func stageFile(ctx context.Context, from, to string) (uint64, error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return 0, err
	}
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return 0, err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, in)
	if err := errors.Join(err, out.Close(), ctx.Err()); err != nil {
		return 0, err
	}
	if err := os.Chmod(to, info.Mode().Perm()); err != nil {
		return 0, err
	}
	return uint64(n), os.Chtimes(to, info.ModTime(), info.ModTime())
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
