package kind

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/yaml"
)

// specFile in a folder says how its image starts; the embedded cluster reads the same.
const specFile = "image.yaml"

type folderSpec struct {
	Entrypoint []string          `json:"entrypoint"`
	Cmd        []string          `json:"cmd"`
	Env        map[string]string `json:"env"`
	User       string            `json:"user"`
	WorkingDir string            `json:"workingDir"`
	StopSignal string            `json:"stopSignal"`
	MountPath  string            `json:"mountPath"`
}

func here() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// fromFolder makes an image of a folder of programs. There is nothing under them, where the embedded cluster has this
// machine's own root: programs must bring all they need.
func fromFolder(dir string) (v1.Image, error) {
	var spec folderSpec
	text, err := os.ReadFile(filepath.Join(dir, specFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(text, &spec); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, specFile), err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(pack(w, dir, spec.MountPath)) }()
		return r, nil
	}, tarball.WithCompressionLevel(1))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, spec.config(image))
}

func (s folderSpec) config(image v1.Image) *v1.ConfigFile {
	config := &v1.ConfigFile{OS: here().OS, Architecture: here().Architecture}
	if have, err := image.ConfigFile(); err == nil { // it is in memory
		config.RootFS = have.RootFS
	}
	config.Config = v1.Config{Entrypoint: s.Entrypoint, Cmd: s.Cmd, User: s.User, WorkingDir: s.WorkingDir, StopSignal: s.StopSignal}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		config.Config.Env = append(config.Config.Env, k+"="+s.Env[k])
	}
	return config
}

// pack writes the folder under mountPath, and the little that programs take for granted. Times are left out, so that
// the same folder is the same image.
func pack(w io.Writer, dir, mountPath string) error {
	out := tar.NewWriter(w)
	passwd := []byte("root:x:0:0:root:/:/sbin/nologin\n")
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}, {Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777},
		{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644, Size: int64(len(passwd))},
	} {
		if err := out.WriteHeader(h); err != nil {
			return err
		}
	}
	if _, err := out.Write(passwd); err != nil {
		return err
	}
	links := map[string]string{} // the first name of a file that has several
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || file == dir || entry.Name() == specFile {
			return err
		}
		below, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		return add(out, file, strings.TrimPrefix(path.Join(mountPath, filepath.ToSlash(below)), "/"), entry, links)
	})
	return errors.Join(err, out.Close())
}

func add(out *tar.Writer, file, inside string, entry fs.DirEntry, links map[string]string) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(file); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h = &tar.Header{Typeflag: h.Typeflag, Name: inside, Mode: h.Mode, Size: h.Size, Linkname: h.Linkname}
	if !info.Mode().IsRegular() {
		return out.WriteHeader(h)
	}
	id := identity(info)
	if first, again := links[id]; again && id != "" {
		return out.WriteHeader(&tar.Header{Typeflag: tar.TypeLink, Name: inside, Linkname: first, Mode: h.Mode})
	}
	links[id] = inside // "" is looked up by nobody
	if err := standsAlone(file); err != nil {
		return err
	}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(out, in)
	return err
}

// standsAlone refuses a program that needs a loader which nobody brings.
func standsAlone(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return nil //nolint:nilerr // no program
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		loader, _ := io.ReadAll(p.Open())
		return fmt.Errorf("%s is linked dynamically and needs %s: on kind a host: folder has no root filesystem under it; build it with CGO_ENABLED=0, or give an image",
			file, bytes.TrimRight(loader, "\x00"))
	}
	return nil
}
