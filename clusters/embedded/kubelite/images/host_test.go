package images

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func hostFolder(t *testing.T, spec string) string {
	t.Helper()
	dir := t.TempDir()
	check(t, errors.Join(os.WriteFile(filepath.Join(dir, "app"), []byte("#!/bin/sh\n"), 0o755), os.Symlink("app", filepath.Join(dir, "alias"))))
	if spec != "" {
		check(t, os.WriteFile(filepath.Join(dir, SpecFile), []byte(spec), 0o600))
	}
	return dir
}

func TestHostFolderIsLaidOverTheRoot(t *testing.T) {
	s := testStore(t, t.TempDir())
	dir := hostFolder(t, "")
	add(t, s, "app", "host:"+dir)
	img := pull(t, s, "app:1.0.0")
	want := Image{ID: img.ID, Layers: []string{dir, "/host-root"}, Env: []string{"PATH=" + defaultPath}}
	if diff := cmp.Diff(want, img); diff != "" {
		t.Error(diff)
	}
	if again := pull(t, s, "app:2.0.0"); again.ID != img.ID {
		t.Error("the same folder has another ID under another tag")
	}
	if info := mustList(t, s)[0]; !slices.Equal(info.RepoTags, []string{"docker.io/library/app:1.0.0", "docker.io/library/app:2.0.0"}) || info.Size != 10 || info.RepoDigests != nil {
		t.Errorf("listed as %+v", info)
	}
}

func TestHostProgramsAreMovedToTheirMountPath(t *testing.T) {
	s := testStore(t, t.TempDir())
	dir := hostFolder(t, "mountPath: /usr/local/bin\nentrypoint: [/usr/local/bin/app]\nenv: {PATH: /x, A: b}\nuser: \"7\"\n")
	add(t, s, "app", "host:"+dir)
	img := pull(t, s, "app")
	if len(img.Layers) != 2 || img.Layers[1] != "/host-root" {
		t.Fatalf("layers %v", img.Layers)
	}
	if diff := cmp.Diff([]string{"usr", "usr/local", "usr/local/bin", "usr/local/bin/alias", "usr/local/bin/app"}, tree(t, img.Layers[0], "")); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(filepath.Join(img.Layers[0], "usr/local/bin/app")); err != nil || info.Mode() != 0o755 {
		t.Errorf("mode of the program: %v (%v)", info.Mode(), err)
	}
	if !slices.Equal(img.Env, []string{"A=b", "PATH=/x"}) || img.User != "7" || !slices.Equal(img.Entrypoint, []string{"/usr/local/bin/app"}) {
		t.Errorf("starts as %+v", img)
	}
	check(t, os.WriteFile(filepath.Join(dir, "app"), []byte("rebuilt"), 0o755))
	check(t, os.Chtimes(filepath.Join(dir, "app"), time.Time{}, time.Now().Add(time.Minute)))
	again := pull(t, s, "app")
	if got := readFile(t, again.Layers[0], "usr/local/bin/app"); got != "rebuilt" {
		t.Errorf("after a rebuild the program is %q", got)
	}
	if got := readFile(t, img.Layers[0], "usr/local/bin/app"); got == "rebuilt" {
		t.Error("the rebuild changed a layer under the containers that run on it")
	}
}

func TestTheSameProgramsTakeNoMoreRoom(t *testing.T) {
	s := testStore(t, t.TempDir())
	const spec = "mountPath: /usr/local/bin\n"
	one, two := hostFolder(t, spec), hostFolder(t, spec)
	for _, dir := range []string{one, two} {
		check(t, os.Link(filepath.Join(dir, "app"), filepath.Join(dir, "other")))
	}
	check(t, os.Chtimes(filepath.Join(two, "app"), time.Time{}, time.Now().Add(time.Minute)))
	add(t, s, "one", "host:"+one)
	add(t, s, "two", "host:"+two)
	a, b := pull(t, s, "one").Layers[0], pull(t, s, "two").Layers[0]
	if a != b {
		t.Errorf("two folders with the same programs are two layers: %s, %s", a, b)
	}
	app, err := os.Stat(filepath.Join(a, "usr/local/bin/app"))
	check(t, err)
	other, err := os.Stat(filepath.Join(a, "usr/local/bin/other"))
	check(t, err)
	if !os.SameFile(app, other) {
		t.Error("a program with two names is there twice")
	}
}

func TestHostSourcesThatAreNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	check(t, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct{ sentence, dir, want string }{
		{"a folder that is not there", "/nowhere", "stat /nowhere: no such file or directory"},
		{"a file", file, "not a directory"},
		{"a folder with a bad image.yaml", hostFolder(t, "entrypoint: []\nfoo: 1\n"), `image.yaml:2: unknown key "foo"`},
	} {
		s := testStore(t, t.TempDir())
		add(t, s, "app", "host:"+tt.dir)
		if _, err := s.Pull(context.Background(), "app", Auth{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q in it", tt.sentence, err, tt.want)
		}
	}
}

func TestBuiltins(t *testing.T) {
	program := filepath.Join(t.TempDir(), "some-binary")
	check(t, os.WriteFile(program, []byte("program"), 0o755))
	s := testStore(t, t.TempDir(), func(c *Config) {
		c.Builtins, c.Transport = []Builtin{Host(), Etcd(program)}, deadTransport{}
	})
	host := pull(t, s, "shakedown.dev/host:any")
	if diff := cmp.Diff([]string{"/host-root"}, host.Layers); diff != "" {
		t.Error(diff)
	}
	etcd := pull(t, s, "shakedown.dev/etcd")
	if got := readFile(t, etcd.Layers[0], etcd.Entrypoint[0]); got != "program" || etcd.Entrypoint[1] != "etcd" {
		t.Errorf("entrypoint %v is %q", etcd.Entrypoint, got)
	}
	add(t, s, "quay.io/coreos/etcd", "builtin:shakedown.dev/etcd")
	if alias := pull(t, s, "quay.io/coreos/etcd:v3"); alias.ID != etcd.ID {
		t.Error("another name for a built-in is another image")
	}
}
