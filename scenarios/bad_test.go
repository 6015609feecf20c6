package scenarios

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the golden files anew")

var files = fstest.MapFS{
	"lengths.txt": {Data: []byte("10s # short\n\n2m\n")},
	"bad.txt":     {Data: []byte("10s\n20\n")},
}

// fakeExpr knows one wrong name, at its place.
func fakeExpr(_ ExprPlace, expr string, _ Names) []ExprProblem {
	if i := strings.Index(expr, "droped"); i >= 0 {
		return []ExprProblem{{Line: 1, Column: i + 1, Message: `sessions has no "droped"`, Nearest: "dropped"}}
	}
	return nil
}

// TestBadScenariosAreToldAllAtOnce holds what is said about the files of each
// archive in testdata/bad against its last file, want.
func TestBadScenariosAreToldAllAtOnce(t *testing.T) {
	archives, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal(err, "no archives")
	}
	for _, path := range archives {
		t.Run(filepath.Base(path), func(t *testing.T) {
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			opts := Options{Files: files, Expr: fakeExpr}
			last := len(ar.Files) - 1
			for _, f := range ar.Files[:last] {
				if f.Name == "set" {
					opts.Set = strings.Fields(string(f.Data))
					continue
				}
				_, err := Decode(f.Name, f.Data, opts)
				if err == nil {
					t.Errorf("%s: nothing wrong", f.Name)
					continue
				}
				got.WriteString(err.Error() + "\n")
			}
			if *update {
				ar.Files[last].Data = []byte(got.String())
				if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(ar.Files[last].Data), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Error(cmp.Diff(string(want), string(got)))
	}
}
