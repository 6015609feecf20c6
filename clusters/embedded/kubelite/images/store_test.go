package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func discardLogger() *log.Logger { return log.New(io.Discard, "", 0) }

func wantApp(t *testing.T, img Image, body string) {
	t.Helper()
	if len(img.Layers) != 2 {
		t.Fatalf("layers %v, want two", img.Layers)
	}
	if got := readFile(t, img.Layers[1], "bin/app"); got != body {
		t.Errorf("/bin/app is %q, want %q", got, body)
	}
	if got := readFile(t, img.Layers[0], "etc/conf"); got != "c" {
		t.Errorf("the topmost layer must come first; its /etc/conf is %q", got)
	}
	want := Image{ID: img.ID, Layers: img.Layers, Entrypoint: []string{"/bin/app"}, Cmd: []string{"serve"}, Env: []string{"A=1"}, WorkingDir: "/srv", User: "65532:65532", StopSignal: "SIGINT"}
	if diff := cmp.Diff(want, img); diff != "" {
		t.Error(diff)
	}
}

func TestRegistryImageIsPulledDescribedAndRemoved(t *testing.T) {
	ctx := context.Background()
	host := testRegistry(t)
	src := appImage(t, "one")
	push(t, src, host+"/app:1")
	s := testStore(t, t.TempDir())
	full := host + "/app:1"

	if _, err := s.Status(ctx, full); !errors.Is(err, ErrNotFound) {
		t.Fatalf("before the pull: %v, want ErrNotFound", err)
	}
	img := pull(t, s, full)
	wantApp(t, img, "one")
	id, _ := src.ConfigName()
	digest, _ := src.Digest()
	info, err := s.Status(ctx, img.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := Info{ID: id.String(), RepoTags: []string{full}, RepoDigests: []string{host + "/app@" + digest.String()}, Size: uint64(len("one") + len("x") + len("c")), User: "65532:65532"}
	if diff := cmp.Diff(want, info); diff != "" {
		t.Error(diff)
	}
	wantApp(t, pull(t, s, host+"/app@"+digest.String()), "one")
	if list, _ := s.List(ctx); len(list) != 1 {
		t.Errorf("one image under two names is listed as %v", list)
	}
	if err := s.Remove(ctx, img.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Status(ctx, full); !errors.Is(err, ErrNotFound) {
		t.Errorf("after Remove: %v, want ErrNotFound", err)
	}
	if err := s.Remove(ctx, full); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
}

func TestPulledImageOutlivesItsStore(t *testing.T) {
	host, dir := testRegistry(t), t.TempDir()
	push(t, appImage(t, "one"), host+"/app:1")
	pull(t, testStore(t, dir), host+"/app:1")

	offline := testStore(t, dir, func(c *Config) { c.Transport = deadTransport{} })
	img, err := offline.Rootfs(context.Background(), host+"/app:1")
	if err != nil {
		t.Fatal(err)
	}
	wantApp(t, img, "one")
	if other := testStore(t, dir, func(c *Config) { c.UserNamespace = true }); len(mustList(t, other)) != 0 {
		t.Error("layers for the other kind of overlay count as present")
	}
}

type deadTransport struct{}

func (deadTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("dial tcp: no route to host")
}

func mustList(t *testing.T, p Puller) []Info {
	t.Helper()
	list, err := p.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestUnknownImageSaysWhatWasTried(t *testing.T) {
	s := testStore(t, t.TempDir(), func(c *Config) { c.Transport = deadTransport{} })
	add(t, s, "gone", "archive:/nowhere/gone.tar")
	add(t, s, "pinned.example/x", "builtin:shakedown.dev/none")
	for _, tt := range []struct {
		sentence, name string
		want           []string
	}{
		{"without a row the registry of the name is tried", "foo:1", []string{`image "foo:1": no --image source matches; registry docker.io: `, "no route to host"}},
		{"with a row only that source is tried", "gone:7", []string{`image "gone:7": source archive:/nowhere/gone.tar: open /nowhere/gone.tar: no such file or directory`}},
		{"a built-in that does not exist is named", "pinned.example/x:2", []string{"source builtin:shakedown.dev/none: no built-in image has this name"}},
		{"a bad name is refused as such", "Foo Bar", []string{`image "Foo Bar": invalid reference format`}},
	} {
		_, err := s.Pull(context.Background(), tt.name, Auth{})
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", tt.sentence, err, want)
			}
		}
	}
}

func TestCredentialsOfThePullAreUsed(t *testing.T) {
	var got string
	seen := roundTripper(func(r *http.Request) (*http.Response, error) {
		if auth := r.Header.Get("Authorization"); auth != "" {
			got = auth
		}
		resp := &http.Response{StatusCode: 401, Header: http.Header{"Www-Authenticate": {`Basic realm="x"`}}, Body: http.NoBody, Request: r}
		return resp, nil
	})
	s := testStore(t, t.TempDir(), func(c *Config) { c.Transport = seen })
	_, err := s.Pull(context.Background(), "private.example/xx:1", Auth{Username: "u", Password: "p"})
	if err == nil || !strings.Contains(err.Error(), "registry private.example: ") {
		t.Errorf("error %v, want one of registry private.example", err)
	}
	if got != "Basic dTpw" {
		t.Errorf("Authorization was %q (%v)", got, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestImageUnderAnotherName(t *testing.T) {
	ctx, host, dir := context.Background(), testRegistry(t), t.TempDir()
	push(t, appImage(t, "one"), host+"/mirror/app:1")
	push(t, appImage(t, "two"), host+"/other/app:1")
	s := testStore(t, dir)
	add(t, s, "quay.io/team/app", "registry:"+host+"/mirror/app:1")
	wantApp(t, pull(t, s, "quay.io/team/app:1"), "one")
	if list := mustList(t, s); len(list) != 1 || list[0].RepoTags[0] != "quay.io/team/app:1" {
		t.Errorf("listed as %v", list)
	}
	add(t, s, "quay.io/team/app", "registry:"+host+"/other/app:1")
	if _, err := s.Status(ctx, "quay.io/team/app:1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("pulled from elsewhere: %v, want ErrNotFound", err)
	}
	wantApp(t, pull(t, s, "quay.io/team/app:1"), "two")
}

func TestTwoStoresUnpackAtOnce(t *testing.T) {
	host, dir := testRegistry(t), t.TempDir()
	body := strings.Repeat("x", 1<<20)
	push(t, appImage(t, body), host+"/app:1")
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range 8 {
		s := testStore(t, dir)
		wg.Go(func() {
			_, err := s.Pull(context.Background(), host+"/app:1", Auth{})
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	s := testStore(t, dir)
	img, err := s.Rootfs(context.Background(), host+"/app:1")
	check(t, err)
	wantApp(t, img, body)
	if left, _ := filepath.Glob(filepath.Join(dir, "layers", "*", "*.partial")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The test binary is run again as a process that dies while it unpacks.
func TestKilledHalfWayLeavesNothingThatIsBelieved(t *testing.T) {
	key := strings.Repeat("ab", 32)
	if dir := os.Getenv("IMAGES_TEST_DIE_IN"); dir != "" {
		c, err := openCache(dir, false)
		check(t, err)
		_, err = c.ensure(context.Background(), key, func(root string) (layerStat, error) {
			check(t, os.WriteFile(filepath.Join(root, "half"), []byte("half"), 0o600))
			self, _ := os.FindProcess(os.Getpid())
			check(t, self.Kill())
			select {}
		})
		t.Fatal("survived", err)
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "IMAGES_TEST_DIE_IN="+dir)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("the process was to be killed: %s", out)
	}
	c, err := openCache(dir, false)
	check(t, err)
	if _, err := os.Stat(filepath.Join(c.layerDir(key)+".partial", "root", "half")); err != nil {
		t.Fatalf("the process died before it began: %v", err)
	}
	if c.present(key) {
		t.Fatal("half a layer is believed")
	}
	root, err := c.ensure(context.Background(), key, func(root string) (layerStat, error) {
		return layerStat{}, os.WriteFile(filepath.Join(root, "whole"), nil, 0o600)
	})
	check(t, err)
	names, _ := filepath.Glob(root + "/*")
	if diff := cmp.Diff([]string{filepath.Join(root, "whole")}, names); diff != "" {
		t.Error(diff)
	}
}

func TestFailedUnpackingLeavesNothing(t *testing.T) {
	host, dir := testRegistry(t), t.TempDir()
	push(t, testImage(t, v1.Config{}, testLayer(t, entry{name: "a", body: "a"}, entry{name: "../evil", body: "b"})), host+"/bad:1")
	_, err := testStore(t, dir).Pull(context.Background(), host+"/bad:1", Auth{})
	if !errors.Is(err, ErrEscapes) {
		t.Fatalf("error %v, want ErrEscapes", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "layers", "*", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestContentsThatAreNotTheDiffIDAreRefused(t *testing.T) {
	good, bad := testLayer(t, entry{name: "a", body: "good"}), testLayer(t, entry{name: "a", body: "evil"})
	diff, err := good.DiffID()
	check(t, err)
	s := testStore(t, t.TempDir())
	if err := s.unpackLayer(context.Background(), bad, diff); err == nil || !strings.Contains(err.Error(), "contents have digest") {
		t.Errorf("error %v", err)
	}
	if s.cache.present(diff.Hex) {
		t.Error("the layer is believed")
	}
}

func TestPruneSparesWhatIsHeldOrYoung(t *testing.T) {
	host, dir := testRegistry(t), t.TempDir()
	push(t, appImage(t, "one"), host+"/app:1")
	s := testStore(t, dir)
	pull(t, s, host+"/app:1")
	pruner := testStore(t, dir)
	if freed, err := pruner.Prune(0); err != nil || freed != 0 {
		t.Errorf("pruned %d bytes that a store holds (%v)", freed, err)
	}
	check(t, s.Close())
	if freed, err := pruner.Prune(time.Hour); err != nil || freed != 0 {
		t.Errorf("pruned %d bytes used a moment ago (%v)", freed, err)
	}
	if freed, err := pruner.Prune(0); err != nil || freed != 5 {
		t.Errorf("pruned %d bytes, want 5 (%v)", freed, err)
	}
	if _, err := pruner.Status(context.Background(), host+"/app:1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a name whose layers are gone: %v, want ErrNotFound", err)
	}
	wantApp(t, pull(t, pruner, host+"/app:1"), "one")
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// One layer of a thousand files of 8 KiB and one of 32 MiB, uncompressed.
func BenchmarkUnpack(b *testing.B) {
	entries := []entry{{name: "big", body: strings.Repeat("x", 32<<20)}}
	for i := range 1000 {
		entries = append(entries, entry{name: fmt.Sprintf("dir%d/file%d", i%50, i), body: strings.Repeat("y", 8<<10)})
	}
	archive := layerTar(b, entries...)
	b.SetBytes(int64(len(archive)))
	for b.Loop() {
		dir := b.TempDir()
		if _, err := untar(context.Background(), bytes.NewReader(archive), dir, "user"); err != nil {
			b.Fatal(err)
		}
	}
}
