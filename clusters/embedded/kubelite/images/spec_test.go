package images

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeSpec(t *testing.T) {
	for _, tt := range []struct {
		sentence, text string
		want           Spec
		wantErrs       []string
	}{
		{"all keys", "entrypoint: [/bin/app, serve]\ncmd: [-v]\nenv: {A: b}\nuser: 1000:1000\nworkingDir: /srv\nstopSignal: SIGINT\nmountPath: /usr/local/bin\n",
			Spec{[]string{"/bin/app", "serve"}, []string{"-v"}, map[string]string{"A": "b"}, "1000:1000", "/srv", "SIGINT", "/usr/local/bin"}, nil},
		{"an empty file is an image with no entrypoint", "", Spec{}, nil},
		{"so are comments alone", "# nothing\n", Spec{}, nil},
		{"unknown keys are all named, with their lines", "entrypoint: [a]\ncommand: [b]\nports: 1\n", Spec{}, []string{
			`image.yaml:2: unknown key "command"; allowed are cmd, entrypoint, env, mountPath, stopSignal, user, workingDir`, `image.yaml:3: unknown key "ports"`}},
		{"a key may be there once", "user: a\nuser: b\n", Spec{}, []string{`image.yaml:2: key "user" is there twice`}},
		{"a value of the wrong kind names its line", "user: a\nentrypoint: app\n", Spec{}, []string{"image.yaml:", "line 2", "cannot unmarshal"}},
		{"paths are absolute", "user: a\nmountPath: bin\nworkingDir: x\n", Spec{}, []string{`image.yaml:2: mountPath "bin": want an absolute path`, `image.yaml:3: workingDir "x"`}},
		{"a variable has a name", "env:\n  A=B: c\n", Spec{}, []string{`env: "A=B" is no name`}},
		{"a list is no image", "- a\n", Spec{}, []string{"image.yaml:1: want a mapping with the keys cmd, "}},
		{"one document is allowed", "user: a\n---\nuser: b\n", Spec{}, []string{"a second document"}},
		{"what is no YAML names its line", "user: a\n\t- x\n", Spec{}, []string{"image.yaml: ", "line 2"}},
	} {
		got, err := decodeSpec("image.yaml", []byte(tt.text))
		if len(tt.wantErrs) == 0 {
			if err != nil {
				t.Errorf("%s: %v", tt.sentence, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: %s", tt.sentence, diff)
			}
		}
		for _, want := range tt.wantErrs {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", tt.sentence, err, want)
			}
		}
	}
}

func TestSpecOfAFolderNamesItsFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := readSpec(dir); err != nil {
		t.Errorf("a folder needs no %s: %v", SpecFile, err)
	}
	file := filepath.Join(dir, SpecFile)
	check(t, os.WriteFile(file, []byte("x: y"), 0o600))
	if _, err := readSpec(dir); err == nil || !strings.HasPrefix(err.Error(), file+":1: ") {
		t.Errorf("error %v, want it to begin with the file and line", err)
	}
}

// Whatever the text, a spec that is accepted is one the runtime can use, and no
// key outside the list is accepted.
func FuzzDecodeSpec(f *testing.F) {
	f.Add([]byte("entrypoint: [/bin/app]\nenv: {A: b}\nmountPath: /x\n"))
	f.Add([]byte("a: &a [*a]\n<<: *a\n"))
	f.Add([]byte("? [x]\n: y\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		spec, err := decodeSpec("image.yaml", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "image.yaml:") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		for _, p := range []string{spec.MountPath, spec.WorkingDir} {
			if p != "" && !filepath.IsAbs(p) {
				t.Errorf("accepted the path %q", p)
			}
		}
		for _, env := range spec.env() {
			if name, _, ok := strings.Cut(env, "="); !ok || name == "" {
				t.Errorf("accepted the variable %q", env)
			}
		}
	})
}
