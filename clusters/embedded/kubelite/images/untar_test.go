package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// unpackInto unpacks entries into a directory "in" which has a sibling "out"
// that nothing may reach.
func unpackInto(t testing.TB, entries ...entry) (in string, stat layerStat, err error) {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	check(t, errors.Join(os.Mkdir(in, 0o755), os.Mkdir(out, 0o755), os.WriteFile(filepath.Join(out, "secret"), []byte("secret"), 0o600)))
	stat, err = untar(context.Background(), bytes.NewReader(layerTar(t, entries...)), in, "trusted")
	t.Cleanup(func() { _ = removeTree(dir) })
	if diff := cmp.Diff([]string{"in", "out", "out/secret"}, tree(t, dir, "in")); diff != "" {
		t.Errorf("outside of the image: %s", diff)
	}
	if got := readFile(t, out, "secret"); got != "secret" {
		t.Errorf("the file outside was written to: %q", got)
	}
	return in, stat, err
}

// tree lists what is below dir, but not below the folder skip; devices,
// links and opaque directories show themselves.
func tree(t testing.TB, dir, skip string) []string {
	t.Helper()
	var names []string
	check(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		info, err := d.Info()
		check(t, err)
		text := rel
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			text += " -> " + target
		case info.Mode()&fs.ModeCharDevice != 0:
			text += " whiteout"
		case info.IsDir():
			buf := make([]byte, 8)
			if n, err := unix.Lgetxattr(p, "trusted.overlay.opaque", buf); err == nil {
				text += " opaque=" + string(buf[:n])
			}
		}
		names = append(names, text)
		if rel == skip {
			return fs.SkipDir
		}
		return nil
	}))
	return names
}

func TestMaliciousArchivesDoNotEscape(t *testing.T) {
	for _, tt := range []struct {
		sentence string
		entries  []entry
		want     []string // in the image
		refused  bool
	}{
		{"a name that climbs out is refused", []entry{{name: "../out/evil", body: "x"}}, nil, true},
		{"also when it comes back in", []entry{{name: "../in/evil", body: "x"}}, nil, true},
		{"also by way of a directory", []entry{{name: "a/../../out/evil", body: "x"}}, nil, true},
		{"an absolute name is one from the image's root", []entry{{name: "/evil", body: "x"}}, []string{"evil"}, false},
		{"a link that climbs out leads to the image's root", []entry{{name: "l", link: "../out"}, {name: "l/evil", body: "x"}}, []string{"l -> ../out", "out", "out/evil"}, false},
		{"so does an absolute one", []entry{{name: "l", link: "/out"}, {name: "l/evil", body: "x"}}, []string{"l -> /out", "out", "out/evil"}, false},
		{"a link to a link", []entry{{name: "a", link: "b"}, {name: "b", link: "../../out"}, {name: "a/evil", body: "x"}}, []string{"a -> b", "b -> ../../out", "out", "out/evil"}, false},
		{"a file over a link replaces it and does not write through it", []entry{{name: "l", link: "../out/secret"}, {name: "l", body: "evil"}}, []string{"l"}, false},
		{"a directory over a link replaces it", []entry{{name: "l", link: "../out"}, {name: "l/", dir: true}, {name: "l/evil", body: "x"}}, []string{"l", "l/evil"}, false},
		{"a loop of links is refused", []entry{{name: "a", link: "b"}, {name: "b", link: "a"}, {name: "a/x", body: "x"}}, []string{"a -> b", "b -> a"}, true},
		{"a hard link that climbs out is refused", []entry{{name: "h", hard: "../out/secret"}}, nil, true},
		{"an absolute hard link is one in the image", []entry{{name: "h", hard: "/out/secret"}}, nil, true},
		{"a hard link by way of a link stays inside", []entry{{name: "l", link: "../out"}, {name: "h", hard: "l/secret"}}, []string{"l -> ../out"}, true},
		{"a hard link to a link links the link", []entry{{name: "l", link: "../out/secret"}, {name: "h", hard: "l"}, {name: "h", body: "evil"}}, []string{"h", "l -> ../out/secret"}, false},
		{"a whiteout of the parent is refused", []entry{{name: ".wh..."}}, nil, true},
		{"a whiteout with nothing to hide is refused", []entry{{name: "a/.wh."}}, []string{"a"}, true},
		{"a whiteout by way of a link stays inside", []entry{{name: "l", link: "../out"}, {name: "l/.wh.secret"}}, []string{"l -> ../out", "out", "out/secret whiteout"}, false},
		{"an opaque mark by way of a link stays inside", []entry{{name: "l", link: "../out"}, {name: "l/.wh..wh..opq"}}, []string{"l -> ../out", "out opaque=y"}, false},
		{"a device that is an overlay's whiteout is refused", []entry{{header: &tar.Header{Name: "w", Typeflag: tar.TypeChar}}}, nil, true},
		{"the root cannot become a link", []entry{{name: "./", link: "../out"}}, nil, true},
		{"an overlay's own marks are not the archive's to set", []entry{{name: "d/", dir: true, pax: map[string]string{"SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.trusted.overlay.redirect": "/etc"}}}, []string{"d"}, false},
	} {
		t.Run(tt.sentence, func(t *testing.T) {
			if needsRoot := strings.Contains(fmt.Sprint(tt.want), "opaque"); needsRoot && os.Geteuid() != 0 {
				t.Skip("trusted xattrs need root")
			}
			in, _, err := unpackInto(t, tt.entries...)
			if tt.refused != (err != nil) {
				t.Errorf("error %v, want one: %v", err, tt.refused)
			}
			if diff := cmp.Diff(tt.want, tree(t, in, "")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhiteouts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("trusted xattrs need root; TestOverlayShowsTheImage has the form for ordinary users")
	}
	for _, tt := range []struct {
		sentence string
		entries  []entry
		want     []string
	}{
		{"a name of the layers below is hidden", []entry{{name: "etc/", dir: true}, {name: "etc/.wh.old"}}, []string{"etc", "etc/old whiteout"}},
		{"a directory of the layers below shows nothing of theirs", []entry{{name: "d/", dir: true}, {name: "d/.wh..wh..opq"}, {name: "d/new", body: "x"}}, []string{"d opaque=y", "d/new"}},
		{"a file made after its whiteout is there", []entry{{name: ".wh.f"}, {name: "f", body: "x"}}, []string{"f"}},
		{"a file made before its whiteout is there too", []entry{{name: "f", body: "x"}, {name: ".wh.f"}}, []string{"f"}},
		{"a directory made anew is opaque", []entry{{name: ".wh.d"}, {name: "d/", dir: true}, {name: "d/f", body: "x"}}, []string{"d opaque=y", "d/f"}},
		{"in either order", []entry{{name: "d/", dir: true}, {name: "d/f", body: "x"}, {name: ".wh.d"}}, []string{"d opaque=y", "d/f"}},
		{"also one that only a name implies", []entry{{name: ".wh.d"}, {name: "d/f", body: "x"}}, []string{"d opaque=y", "d/f"}},
		{"a whiteout in an opaque directory is of no use", []entry{{name: "d/.wh..wh..opq"}, {name: "d/.wh.f"}}, []string{"d opaque=y"}},
		{"a whiteout goes with the directory that a file replaces", []entry{{name: "d/.wh.f"}, {name: "d", body: "x"}}, []string{"d"}},
		{"AUFS's own files are left out", []entry{{name: ".wh..wh.plnk/", dir: true}, {name: ".wh..wh.aufs", body: ""}}, nil},
	} {
		in, _, err := unpackInto(t, tt.entries...)
		if err != nil {
			t.Errorf("%s: %v", tt.sentence, err)
		}
		if diff := cmp.Diff(tt.want, tree(t, in, "")); diff != "" {
			t.Errorf("%s: %s", tt.sentence, diff)
		}
	}
}

func TestOpaqueRootIsNoted(t *testing.T) {
	_, stat, err := unpackInto(t, entry{name: ".wh..wh..opq"}, entry{name: "f"})
	if err != nil || !stat.Opaque {
		t.Errorf("stat %+v, error %v; want Opaque", stat, err)
	}
}

func TestModesTimesOwnersAndLinks(t *testing.T) {
	when := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	in, stat, err := unpackInto(t,
		entry{header: &tar.Header{Name: "ro/", Typeflag: tar.TypeDir, Mode: 0o555, ModTime: when}},
		entry{header: &tar.Header{Name: "ro/f", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 12, Gid: 34, ModTime: when, Size: 1}, body: "f"},
		entry{header: &tar.Header{Name: "ro/none", Typeflag: tar.TypeReg, ModTime: when}},
		entry{name: "hard", hard: "ro/f"},
		entry{header: &tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/absolute/elsewhere", ModTime: when}},
		entry{header: &tar.Header{Name: "tmp", Typeflag: tar.TypeDir, Mode: 0o1777, ModTime: when}},
		entry{header: &tar.Header{Name: "pipe", Typeflag: tar.TypeFifo, Mode: 0o600, ModTime: when}})
	check(t, err)
	for name, mode := range map[string]fs.FileMode{
		"ro": fs.ModeDir | 0o555, "ro/f": fs.ModeSetuid | 0o755, "ro/none": 0, "tmp": fs.ModeDir | fs.ModeSticky | 0o777, "pipe": fs.ModeNamedPipe | 0o600,
	} {
		info, err := os.Lstat(filepath.Join(in, name))
		check(t, err)
		if info.Mode() != mode || !info.ModTime().Equal(when) {
			t.Errorf("%s: mode %v time %v, want %v %v", name, info.Mode(), info.ModTime(), mode, when)
		}
	}
	var f, hard unix.Stat_t
	check(t, errors.Join(unix.Lstat(filepath.Join(in, "ro/f"), &f), unix.Lstat(filepath.Join(in, "hard"), &hard)))
	if f.Ino != hard.Ino {
		t.Error("the hard link is a file of its own")
	}
	buf := make([]byte, 32)
	n, xerr := unix.Lgetxattr(filepath.Join(in, "ro/f"), ownerXattr, buf)
	switch {
	case stat.Squashed == 0 && (f.Uid != 12 || f.Gid != 34):
		t.Errorf("owner is %d:%d, want 12:34", f.Uid, f.Gid)
	case stat.Squashed > 0 && (xerr != nil || string(buf[:n]) != "12:34:04755"):
		t.Errorf("the owner was squashed, but its record is %q (%v)", buf[:max(n, 0)], xerr)
	}
	if stat.Bytes != 1 || stat.Inodes != 6 {
		t.Errorf("counted %+v, want 1 byte and 6 inodes", stat)
	}
}

func TestXattrs(t *testing.T) {
	in, _, err := unpackInto(t, entry{name: "f", body: "x", mode: 0o444, pax: map[string]string{
		"SCHILY.xattr.user.kept": "v", "SCHILY.xattr.user.overlay.redirect": "/etc", "SCHILY.xattr.trusted.overlay.metacopy": "y", "SCHILY.xattr." + ownerXattr: "0:0:0",
		"SCHILY.xattr.no.such.namespace": "is no reason to refuse the image",
	}})
	check(t, err)
	buf := make([]byte, 256)
	n, err := unix.Llistxattr(filepath.Join(in, "f"), buf)
	if errors.Is(err, unix.ENOTSUP) {
		t.Skip("this file system has no xattrs")
	}
	check(t, err)
	got := strings.Replace(string(buf[:n]), ownerXattr+"\x00", "", 1) // ours, where owners are squashed
	if got != "user.kept\x00" {
		t.Errorf("the file has %q, want user.kept alone", got)
	}
	if n, err := unix.Lgetxattr(filepath.Join(in, "f"), ownerXattr, buf); err == nil && string(buf[:n]) == "0:0:0" {
		t.Error("the archive set the record of the owner")
	}
}

func TestEntriesInTheWayOfEachOther(t *testing.T) {
	for _, tt := range []struct {
		sentence string
		entries  []entry
		want     []string
	}{
		{"a file gives way to a directory", []entry{{name: "a", body: "x"}, {name: "a/b", body: "y"}}, []string{"a", "a/b"}},
		{"a directory gives way to a file with all it has", []entry{{name: "a/b/c", body: "x"}, {name: "a", body: "y"}}, []string{"a"}},
		{"the last of two wins", []entry{{name: "a", body: "x"}, {name: "./a", link: "z"}}, []string{"a -> z"}},
		{"an absolute link on the way is resolved in the image", []entry{{name: "run/", dir: true}, {name: "var/run", link: "/run"}, {name: "var/run/x", body: "x"}}, []string{"run", "run/x", "var", "var/run -> /run"}},
	} {
		in, _, err := unpackInto(t, tt.entries...)
		if err != nil {
			t.Errorf("%s: %v", tt.sentence, err)
		}
		if diff := cmp.Diff(tt.want, tree(t, in, "")); diff != "" {
			t.Errorf("%s: %s", tt.sentence, diff)
		}
	}
}

func TestUnpackingStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := untar(ctx, bytes.NewReader(layerTar(t, entry{name: "a"})), t.TempDir(), "user")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want Canceled", err)
	}
}

// Whatever the archive, nothing is written outside and nothing panics.
func FuzzUntar(f *testing.F) {
	f.Add(layerTar(f, entry{name: "l", link: "../out"}, entry{name: "l/secret", body: "x"}, entry{name: "h", hard: "l/secret"}))
	f.Add(layerTar(f, entry{name: "a/.wh.b"}, entry{name: "a/.wh..wh..opq"}, entry{name: "a/b/", dir: true}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		dir := t.TempDir()
		in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
		check(t, errors.Join(os.Mkdir(in, 0o755), os.Mkdir(out, 0o755), os.WriteFile(filepath.Join(out, "secret"), []byte("secret"), 0o600)))
		_, _ = untar(context.Background(), bytes.NewReader(archive), in, "user")
		defer removeTree(dir)
		if diff := cmp.Diff([]string{"in", "out", "out/secret"}, tree(t, dir, "in")); diff != "" {
			t.Errorf("outside of the image: %s", diff)
		}
		if got := readFile(t, out, "secret"); got != "secret" {
			t.Errorf("the file outside was written to: %q", got)
		}
	})
}
