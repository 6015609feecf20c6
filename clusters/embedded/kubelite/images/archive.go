package images

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
)

// fromArchive reads an archive made by docker save, or a tar of an OCI layout,
// also compressed with gzip or zstd.
func (s *Store) fromArchive(ctx context.Context, r ref, file string) (record, error) {
	plain, remove, err := s.decompressed(ctx, file)
	if err != nil {
		return record{}, err
	}
	defer remove()
	kind, err := archiveKind(plain)
	if err != nil {
		return record{}, err
	}
	if kind == "manifest.json" {
		return s.fromDockerArchive(ctx, r, plain)
	}
	return s.fromLayoutArchive(ctx, r, plain)
}

// decompressed returns the archive as a plain tar: layers are read in any order,
// which a compressed stream does not allow.
func (s *Store) decompressed(ctx context.Context, file string) (plain string, remove func(), err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	stream, compressed, err := decompress(bufio.NewReader(f))
	if err != nil {
		return "", nil, err
	}
	if !compressed {
		return file, func() {}, nil
	}
	dir, remove, err := s.cache.temp()
	if err != nil {
		return "", nil, err
	}
	plain = filepath.Join(dir, "archive.tar")
	if err := writeFile(plain, ctxReader{ctx, stream}); err != nil {
		remove()
		return "", nil, fmt.Errorf("decompress: %w", s.cache.explain(err))
	}
	return plain, remove, nil
}

func decompress(r *bufio.Reader) (stream io.Reader, compressed bool, err error) {
	head, err := r.Peek(4)
	switch {
	case err != nil:
		return nil, false, errors.New("no archive: too short")
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		stream, err = gzip.NewReader(r)
		return stream, true, err
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		return d, true, err
	}
	return r, false, nil
}

func writeFile(file string, r io.Reader) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// archiveKind returns the file that says how the archive is to be read. Newer
// dockers write both; index.json has the digests.
func archiveKind(file string) (string, error) {
	kind := ""
	err := eachEntry(file, func(h *tar.Header, _ io.Reader) error {
		switch path.Clean(h.Name) {
		case "index.json":
			kind = "index.json"
		case "manifest.json":
			if kind == "" {
				kind = "manifest.json"
			}
		}
		return nil
	})
	if err == nil && kind == "" {
		err = errors.New("no image archive: neither manifest.json nor index.json in it")
	}
	return kind, err
}

func eachEntry(file string, visit func(*tar.Header, io.Reader) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	archive := tar.NewReader(f)
	for {
		h, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if err := visit(h, archive); err != nil {
			return err
		}
	}
}

func (s *Store) fromDockerArchive(ctx context.Context, r ref, file string) (record, error) {
	img, err := dockerImage(file, r)
	if err != nil {
		return record{}, err
	}
	return s.unpack(ctx, r, img, "")
}

// dockerImage picks the image of that tag; a single one whatever its tags.
func dockerImage(file string, r ref) (v1.Image, error) {
	opener := func() (io.ReadCloser, error) { return os.Open(file) }
	manifest, err := tarball.LoadManifest(opener)
	if err != nil {
		return nil, fmt.Errorf("read manifest.json: %w", err)
	}
	if len(manifest) == 1 {
		return tarball.Image(opener, nil)
	}
	var have []string
	for _, d := range manifest {
		for _, text := range d.RepoTags {
			have = append(have, text)
			if tagged, err := parseRef(text); err != nil || tagged.full != r.full {
				continue
			}
			tag, err := name.NewTag(text)
			if err != nil {
				return nil, err
			}
			return tarball.Image(opener, &tag)
		}
	}
	return nil, fmt.Errorf("none of its %d images is %s; it has %s", len(manifest), r.full, strings.Join(have, ", "))
}

func (s *Store) fromLayoutArchive(ctx context.Context, r ref, file string) (record, error) {
	dir, remove, err := s.cache.temp()
	if err != nil {
		return record{}, err
	}
	defer remove()
	if err := extractLayout(ctx, file, dir); err != nil {
		return record{}, s.cache.explain(err)
	}
	return s.fromLayout(ctx, r, dir)
}

// extractLayout takes the plain files out of an archive, and nothing else of it:
// a layout has no links. An os.Root keeps them inside dir.
func extractLayout(ctx context.Context, file, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return eachEntry(file, func(h *tar.Header, body io.Reader) error {
		if h.Typeflag != tar.TypeReg {
			return nil
		}
		at := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if escapes(h.Name) || at == "" {
			return fmt.Errorf("entry %q: %w", h.Name, ErrEscapes)
		}
		if err := root.MkdirAll(path.Dir(at), 0o700); err != nil {
			return fmt.Errorf("entry %q: %w", h.Name, err)
		}
		f, err := root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fmt.Errorf("entry %q: %w", h.Name, err)
		}
		_, err = io.Copy(f, ctxReader{ctx, body})
		return errors.Join(err, f.Close())
	})
}
