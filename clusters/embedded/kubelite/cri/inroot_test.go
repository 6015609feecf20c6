package cri

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// newRoot makes a root with the links that images have, and hostile ones.
func newRoot(t *testing.T) (root, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	for _, d := range []string{"run", "var", "usr/bin", "deep/a"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for link, target := range map[string]string{
		"var/run": "/run", "bin": "usr/bin", "up": "../../../..", "abs": "/", "dangling": "/not/yet", "relative": "deep/b",
		"loop1": "loop2", "loop2": "loop1", "deep/out": "../../../../etc",
	} {
		must(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	must(t, os.WriteFile(filepath.Join(dir, "usr/bin/tool"), nil, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "usr/bin/data"), nil, 0o644))
	r, err := openRoot(dir)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r, dir
}

func TestMkdirAllInRoot(t *testing.T) {
	for _, row := range []struct{ sentence, ask, want string }{
		{"a plain path", "/x/y", "x/y"},
		{"through an absolute link, from the root's own top", "/var/run/secrets", "run/secrets"},
		{"through a relative link", "/bin/sub", "usr/bin/sub"},
		{"dots cannot climb out", "/../../../x", "x"},
		{"a link that climbs stays inside", "/up/x", "x"},
		{"a link that climbs from below stays inside", "/deep/out/x", "etc/x"},
		{"a dangling absolute link makes what it names, inside", "/dangling/x", "not/yet/x"},
		{"a dangling relative link too", "/relative/x", "deep/b/x"},
		{"what exists is fine", "/usr/bin", "usr/bin"},
		{"the root itself", "/", "."},
	} {
		r, dir := newRoot(t)
		fd, err := r.mkdirAll(row.ask)
		if err != nil {
			t.Errorf("%s: %v", row.sentence, err)
			continue
		}
		var got, want unix.Stat_t
		must(t, unix.Fstat(fd, &got))
		unix.Close(fd)
		if err := unix.Lstat(filepath.Join(dir, row.want), &want); err != nil || got.Ino != want.Ino {
			t.Errorf("%s: %s is not %s: %v", row.sentence, row.ask, row.want, err)
		}
	}
	r, _ := newRoot(t)
	if _, err := r.mkdirAll("/loop1/x"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("links in a circle: %v", err)
	}
	if _, err := r.mkdirAll("/usr/bin/tool/x"); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file in the way: %v", err)
	}
}

func TestRealDirInRoot(t *testing.T) {
	r, _ := newRoot(t)
	must(t, r.realDir("proc"))
	must(t, r.realDir("proc"))
	if err := r.realDir("abs"); err == nil {
		t.Error("a link was taken for a directory")
	}
}

func TestTouchInRoot(t *testing.T) {
	r, dir := newRoot(t)
	fd, err := r.touch("/var/run/a/file")
	must(t, err)
	unix.Close(fd)
	if st, err := os.Lstat(filepath.Join(dir, "run/a/file")); err != nil || !st.Mode().IsRegular() {
		t.Errorf("file: %v", err)
	}
	fd, err = r.touch("/usr/bin/tool")
	must(t, err)
	unix.Close(fd)
}

func TestLookPathInRoot(t *testing.T) {
	r, _ := newRoot(t)
	env := []string{"PATH=/no:bin:/usr/bin"}
	for _, row := range []struct{ sentence, file, dir, want, err string }{
		{"by name, in PATH", "tool", "/", "/bin/tool", ""},
		{"by name, past a relative entry that does not lead there", "tool", "/run", "/usr/bin/tool", ""},
		{"by path", "/bin/tool", "/", "/bin/tool", ""},
		{"by relative path, from the working directory", "./tool", "/usr/bin", "/usr/bin/tool", ""},
		{"missing", "nope", "/", "", `exec: "nope": executable file not found in $PATH`},
		{"found, but no program", "data", "/", "", "permission denied"},
		{"a directory", "/usr/bin", "/", "", "is a directory"},
		{"missing path", "/x/y", "/", "", "no such file or directory"},
	} {
		got, err := r.lookPath(row.file, row.dir, env)
		if got != row.want || (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: got %q %v, want %q %s", row.sentence, got, err, row.want, row.err)
		}
	}
}
