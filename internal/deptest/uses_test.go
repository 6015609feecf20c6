package deptest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/internal/deptest"
)

// TestOnlyTheCommandLineEndsTheProcess: what ends the process or reads its arguments cannot run inside
// a test, and skips whatever was to be healed on the way out.
func TestOnlyTheCommandLineEndsTheProcess(t *testing.T) {
	places, err := deptest.Uses("../..", "os", "Exit", "Args")
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, place := range places {
		switch {
		case strings.HasPrefix(place, "internal/cli/"):
			seen = true
		case strings.HasPrefix(place, "standin/"), strings.HasPrefix(place, "xk6-teleport/"): // programs of their own
		case strings.HasPrefix(place, "test/"), strings.HasPrefix(place, "clusters/embedded/embeddedtest/"): // programs that tests run
		default:
			t.Error(place)
		}
	}
	if !seen {
		t.Error("internal/cli does not end the process: nothing was looked at")
	}
}

func TestUses(t *testing.T) {
	root := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		file = filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a/a.go", "package a\nimport \"os\"\n// os.Exit in words\nfunc f() { os.Exit(1) }\nvar x = \"os.Exit\"\n")
	write("a/a_test.go", "package a\nimport \"os\"\nfunc g() { os.Exit(1) }\n")
	write("nested/go.mod", "module nested\n")
	write("nested/main.go", "package main\nimport \"os\"\nfunc main() { os.Exit(1) }\n")
	places, err := deptest.Uses(root, "os", "Exit")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a/a.go:4:12 os.Exit"}, places); diff != "" {
		t.Error(diff)
	}
}
