package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const overlayTestDir = "IMAGES_TEST_OVERLAY_DIR"

// inMountNamespace runs the test again in a mount namespace of its own, of an
// ordinary user's kind if user is set, and tells whether this is that run.
func inMountNamespace(t *testing.T, user bool) (inside bool) {
	t.Helper()
	if os.Getenv(overlayTestDir) != "" {
		return true
	}
	if !user && os.Geteuid() != 0 {
		t.Skip("mounting without a user namespace needs root")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), overlayTestDir+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if user {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("this kernel gives no user namespace to ordinary users: %v", err)
	}
	if err == nil && strings.Contains(string(out), "--- SKIP") {
		t.Skipf("inside: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// mountImage mounts layers, topmost first, as the runtime does.
func mountImage(t *testing.T, dir string, user bool, layers ...string) string {
	t.Helper()
	check(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	state, root := filepath.Join(dir, "state"), filepath.Join(dir, "root")
	check(t, errors.Join(os.Mkdir(state, 0o755), os.Mkdir(root, 0o755)))
	check(t, unix.Mount("tmpfs", state, "tmpfs", 0, ""))
	upper, work := filepath.Join(state, "upper"), filepath.Join(state, "work")
	check(t, errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)))
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(layers, ":"), upper, work)
	if user {
		options += ",userxattr"
	}
	check(t, unix.Mount("overlay", root, "overlay", 0, options))
	return root
}

func testOverlay(t *testing.T, user bool) {
	if !inMountNamespace(t, user) {
		return
	}
	form := map[bool]string{false: "trusted", true: "user"}[user]
	dir := os.Getenv(overlayTestDir)
	layer := func(name string, entries ...entry) string {
		at := filepath.Join(dir, name)
		check(t, os.Mkdir(at, 0o755))
		_, err := untar(context.Background(), bytes.NewReader(layerTar(t, entries...)), at, form)
		check(t, err)
		return at
	}
	bottom := layer("bottom", entry{name: "etc/old", body: "old"}, entry{name: "etc/kept", body: "kept", uid: 7, gid: 8}, entry{name: "cache/a", body: "a"}, entry{name: "made-anew/a", body: "a"})
	top := layer("top", entry{name: "etc/.wh.old"}, entry{name: "cache/.wh..wh..opq"}, entry{name: "cache/b", body: "b"}, entry{name: ".wh.made-anew"}, entry{name: "made-anew/b", body: "b"})
	root := mountImage(t, dir, user, top, bottom)
	for name, there := range map[string]bool{
		"etc/kept": true, "etc/old": false, "cache/b": true, "cache/a": false, "made-anew/b": true, "made-anew/a": false, ".wh.made-anew": false,
	} {
		if _, err := os.Lstat(filepath.Join(root, name)); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %v", name, err, there)
		}
	}
	if names, err := filepath.Glob(root + "/etc/*"); err != nil || len(names) != 1 {
		t.Errorf("/etc lists %v (%v)", names, err)
	}
}

func TestOverlayShowsTheImageAsRoot(t *testing.T)           { testOverlay(t, false) }
func TestOverlayShowsTheImageInAUserNamespace(t *testing.T) { testOverlay(t, true) }

// The form for kernels that let nobody but root make a whiteout device.
func TestOverlayUnderstandsXattrWhiteouts(t *testing.T) {
	if !inMountNamespace(t, true) {
		return
	}
	dir := os.Getenv(overlayTestDir)
	top, bottom := filepath.Join(dir, "top"), filepath.Join(dir, "bottom")
	check(t, errors.Join(os.MkdirAll(filepath.Join(top, "etc"), 0o755), os.MkdirAll(filepath.Join(bottom, "etc"), 0o755)))
	check(t, errors.Join(os.WriteFile(filepath.Join(bottom, "etc/old"), nil, 0o600), os.WriteFile(filepath.Join(bottom, "etc/kept"), nil, 0o600)))
	r, err := os.OpenRoot(top)
	check(t, err)
	defer r.Close()
	check(t, (&untarrer{root: r, dir: top, form: "user"}).xattrWhiteout("etc/old"))
	root := mountImage(t, dir, true, top, bottom)
	names, err := filepath.Glob(root + "/etc/*")
	if err != nil || len(names) != 1 || filepath.Base(names[0]) != "kept" {
		t.Errorf("/etc lists %v (%v), want kept alone", names, err)
	}
}

func TestHostRootIsALayer(t *testing.T) {
	if !inMountNamespace(t, false) {
		return
	}
	check(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	dir := os.Getenv(overlayTestDir)
	host, err := MountHostRoot(filepath.Join(dir, "host"))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ELOOP) {
		t.Skipf("not possible over this root: %v", err)
	}
	check(t, err)
	programs := filepath.Join(dir, "programs")
	check(t, errors.Join(os.MkdirAll(filepath.Join(programs, "usr/local/bin"), 0o755), os.WriteFile(filepath.Join(programs, "usr/local/bin/app"), []byte("app"), 0o755)))
	root := mountImage(t, dir, false, programs, host)
	if got := readFile(t, root, "usr/local/bin/app"); got != "app" {
		t.Errorf("the program is %q", got)
	}
	if _, err := os.Stat(filepath.Join(root, "bin/sh")); err != nil {
		t.Errorf("no shell: %v", err)
	}
	for name, mode := range map[string]os.FileMode{"tmp": os.ModeDir | os.ModeSticky | 0o777, "run": os.ModeDir | 0o755} {
		entries, err := os.ReadDir(filepath.Join(root, name))
		info, serr := os.Stat(filepath.Join(root, name))
		if err != nil || serr != nil || len(entries) > 0 || info.Mode() != mode {
			t.Errorf("/%s: %v %v (%v, %v); want it empty with mode %v", name, entries, info, err, serr, mode)
		}
	}
	check(t, os.WriteFile(filepath.Join(root, "written"), nil, 0o600))
	if _, err := os.Stat("/written"); err == nil {
		t.Error("the container wrote to the machine")
	}
}

func TestFullDiskIsSaidAndLeavesNothing(t *testing.T) {
	if !inMountNamespace(t, true) {
		return
	}
	dir := os.Getenv(overlayTestDir)
	check(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
	s := testStore(t, dir)
	layer := testLayer(t, entry{name: "small", body: "x"}, entry{name: "big", body: strings.Repeat("x", 2<<20)})
	diff, err := layer.DiffID()
	check(t, err)
	err = s.unpackLayer(context.Background(), layer, diff)
	for _, want := range []string{`layer sha256:`, `entry "big"`, "no space left on device", "image cache " + dir, "MiB"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "layers", "*", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
