package images

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestArchivesAndLayouts(t *testing.T) {
	dir := t.TempDir()
	img, other := appImage(t, "one"), appImage(t, "two")
	single, multi, packed := filepath.Join(dir, "single.tar"), filepath.Join(dir, "multi.tar"), filepath.Join(dir, "packed.tar.gz")
	tag := func(s string) name.Tag {
		tag, err := name.NewTag(s)
		if err != nil {
			t.Fatal(err)
		}
		return tag
	}
	check(t, tarball.WriteToFile(single, tag("anything:9"), img))
	check(t, tarball.MultiWriteToFile(multi, map[name.Tag]v1.Image{tag("aa:1"): img, tag("bb:1"): other}))
	gzipFile(t, single, packed)

	oci := filepath.Join(dir, "oci")
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": "1"}}},
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Annotations: map[string]string{"io.containerd.image.name": "docker.io/library/bb:1"}}})
	_, err := layout.Write(oci, index)
	check(t, err)
	ociTar, ociGz := filepath.Join(dir, "oci.tar"), filepath.Join(dir, "oci.tgz")
	tarDir(t, oci, ociTar)
	gzipFile(t, ociTar, ociGz)

	for _, tt := range []struct{ sentence, source, name, want, wantErr string }{
		{"a single image is taken whatever its tag", "archive:" + single, "x:5", "one", ""},
		{"the same, compressed", "archive:" + packed, "x:5", "one", ""},
		{"one of several is chosen by its tag", "archive:" + multi, "bb:1", "two", ""},
		{"none of several lists what is there", "archive:" + multi, "c:1", "", "none of its 2 images is docker.io/library/c:1; it has"},
		{"a layout's name may be just a tag", "oci:" + oci, "x:1", "one", ""},
		{"or a full name", "oci:" + oci, "bb:1", "two", ""},
		{"none of a layout's lists what is there", "oci:" + oci, "c:3", "", "docker.io/library/bb:1"},
		{"a layout in a tar", "archive:" + ociTar, "bb:1", "two", ""},
		{"a layout in a compressed tar", "archive:" + ociGz, "bb:1", "two", ""},
		{"a folder that is no layout", "oci:" + dir, "x:1", "", "no OCI layout"},
		{"a file that is no archive", "archive:" + filepath.Join(oci, "index.json"), "x:1", "", "read archive"},
	} {
		s := testStore(t, t.TempDir())
		add(t, s, "*", tt.source)
		if tt.wantErr != "" {
			if _, err := s.Pull(context.Background(), tt.name, Auth{}); err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%s: error %v, want %q in it", tt.sentence, err, tt.wantErr)
			}
			continue
		}
		if _, err := s.Status(context.Background(), tt.name); err != nil {
			t.Errorf("%s: an image on this machine must count as present: %v", tt.sentence, err)
			continue
		}
		wantApp(t, pull(t, s, tt.name), tt.want)
		if left, _ := os.ReadDir(filepath.Join(s.cache.dir, "tmp")); len(left) > 0 {
			t.Errorf("%s: left %v in the cache", tt.sentence, left)
		}
	}
}

func TestRebuiltArchiveIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.tar")
	tag, _ := name.NewTag("aa:1")
	check(t, tarball.WriteToFile(file, tag, appImage(t, "one")))
	s := testStore(t, t.TempDir())
	add(t, s, "aa", "archive:"+file)
	wantApp(t, pull(t, s, "aa:1"), "one")
	check(t, tarball.WriteToFile(file, tag, appImage(t, "two, longer")))
	check(t, os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)))
	wantApp(t, pull(t, s, "aa:1"), "two, longer")
}

func gzipFile(t testing.TB, from, to string) {
	t.Helper()
	f, err := os.Create(to)
	check(t, err)
	w := gzip.NewWriter(f)
	_, err = io.WriteString(w, readFile(t, from))
	check(t, errors.Join(err, w.Close(), f.Close()))
}

func tarDir(t testing.TB, dir, to string) {
	t.Helper()
	var entries []entry
	check(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		entries = append(entries, entry{name: rel, body: readFile(t, p)})
		return nil
	}))
	check(t, os.WriteFile(to, layerTar(t, entries...), 0o600))
}
