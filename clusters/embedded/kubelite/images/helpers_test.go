package images

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// entry is a tar entry in short: a file unless it says otherwise.
type entry struct {
	name, body string
	link       string // symbolic
	hard       string
	dir        bool
	mode       int64
	uid, gid   int
	pax        map[string]string
	header     *tar.Header // everything by hand
}

func layerTar(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.header
		if h == nil {
			h = &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(e.body)), Uid: e.uid, Gid: e.gid, PAXRecords: e.pax}
			switch {
			case e.dir:
				h.Typeflag, h.Mode = tar.TypeDir, 0o755
			case e.link != "":
				h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
			case e.hard != "":
				h.Typeflag, h.Linkname = tar.TypeLink, e.hard
			}
			if e.mode != 0 {
				h.Mode = e.mode
			}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func testLayer(t testing.TB, entries ...entry) v1.Layer {
	t.Helper()
	text := layerTar(t, entries...)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

func testImage(t testing.TB, config v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.Config(img, config)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// appImage is an image of two layers; the upper one takes /gone away.
func appImage(t testing.TB, body string) v1.Image {
	t.Helper()
	return testImage(t, v1.Config{Entrypoint: []string{"/bin/app"}, Cmd: []string{"serve"}, Env: []string{"A=1"}, WorkingDir: "/srv", User: "65532:65532", StopSignal: "SIGINT"},
		testLayer(t, entry{name: "bin/", dir: true}, entry{name: "bin/app", body: body, mode: 0o755}, entry{name: "gone", body: "x"}),
		testLayer(t, entry{name: ".wh.gone"}, entry{name: "etc/conf", body: "c"}))
}

// testRegistry serves an in-memory registry and returns its host:port.
func testRegistry(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(discardLogger())))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func push(t testing.TB, img v1.Image, to string) {
	t.Helper()
	ref, err := name.ParseReference(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
}

func testStore(t testing.TB, dir string, change ...func(*Config)) *Store {
	t.Helper()
	cfg := Config{Dir: dir, HostRoot: "/host-root"}
	for _, c := range change {
		c(&cfg)
	}
	s, err := NewStore(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func add(t testing.TB, s *Store, name, source string) {
	t.Helper()
	if err := s.Add(name, source); err != nil {
		t.Fatal(err)
	}
}

func pull(t testing.TB, p Puller, name string) Image {
	t.Helper()
	ctx := context.Background()
	id, err := p.Pull(ctx, name, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	img, err := p.Rootfs(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if img.ID != id {
		t.Fatalf("Rootfs has ID %s, Pull said %s", img.ID, id)
	}
	return img
}

func readFile(t testing.TB, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
