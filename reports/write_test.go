package reports

import (
	"os"
	"path/filepath"
	"testing"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/checks/runtest"
)

func TestWriteFolder(t *testing.T) {
	dir := t.TempDir()
	r := made(t, runtest.Config{})
	if err := WriteFolder(dir, r); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"verdict.json", "report.html", "junit.xml", "summary.md"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("%d files, want 4 (%v)", len(entries), err)
	}
	v, err := checks.ReadVerdict(dir)
	if err != nil || v.Verdict != r.Verdict.Verdict {
		t.Errorf("verdict %s, %v", v.Verdict, err)
	}
	if err := WriteFolder(filepath.Join(dir, "nowhere"), r); err == nil {
		t.Error("no error for a folder that is not there")
	}
}
