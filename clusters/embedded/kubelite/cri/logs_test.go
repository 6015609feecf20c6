package cri

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newLog(t *testing.T) *logFile {
	t.Helper()
	l, err := openLog(filepath.Join(t.TempDir(), "pod", "c.log"))
	must(t, err)
	l.now = func() time.Time { return time.Unix(0, 5).UTC() }
	t.Cleanup(func() { l.Close() })
	return l
}

func content(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

func TestLogFormat(t *testing.T) {
	const stamp = "1970-01-01T00:00:00.000000005Z "
	long := strings.Repeat("x", maxLogLine)
	for _, row := range []struct {
		sentence string
		writes   []string
		want     string
	}{
		{"a line is full", []string{"a\n"}, stamp + "stdout F a\n"},
		{"a line may come in pieces", []string{"a", "b", "c\nd\n"}, stamp + "stdout F abc\n" + stamp + "stdout F d\n"},
		{"an empty line is a line", []string{"\n"}, stamp + "stdout F \n"},
		{"a line of exactly the limit is full", []string{long + "\n"}, stamp + "stdout F " + long + "\n"},
		{"a longer one is cut", []string{long + "y\n"}, stamp + "stdout P " + long + "\n" + stamp + "stdout F y\n"},
		{"the end without a newline is a part", []string{"a\nb"}, stamp + "stdout F a\n" + stamp + "stdout P b\n"},
		{"nothing is nothing", nil, ""},
	} {
		l := newLog(t)
		s := l.stream("stdout")
		for _, w := range row.writes {
			s.Write([]byte(w))
		}
		s.flush()
		if got := content(t, l.path); got != row.want {
			t.Errorf("%s: got %.200q, want %.200q", row.sentence, got, row.want)
		}
	}
}

func TestLogReopen(t *testing.T) {
	l := newLog(t)
	s := l.stream("stderr")
	s.Write([]byte("old\npar"))
	must(t, os.Rename(l.path, l.path+".1"))
	must(t, l.reopen())
	s.Write([]byte("tial\n"))
	if got := content(t, l.path+".1"); !strings.HasSuffix(got, "stderr F old\n") {
		t.Errorf("old %q", got)
	}
	if got := content(t, l.path); !strings.HasSuffix(got, "stderr F partial\n") {
		t.Errorf("new %q", got)
	}
	none, err := openLog("")
	must(t, err)
	none.stream("stdout").Write([]byte("thrown away\n"))
	must(t, none.reopen())
	must(t, none.Close())
}

// However the output is cut into writes, the log gives it back byte for byte.
func TestLogKeepsEveryByte(t *testing.T) {
	l := newLog(t)
	rapid.Check(t, func(r *rapid.T) {
		must(t, os.Truncate(l.path, 0))
		s := l.stream("stdout")
		var all strings.Builder
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 3*maxLogLine), 0, 8).Draw(r, "writes") {
			p := strings.Repeat("z", n)
			if rapid.Bool().Draw(r, "newline") {
				p += "\n"
			}
			all.WriteString(p)
			s.Write([]byte(p))
		}
		s.flush()
		var back strings.Builder
		for line := range strings.Lines(content(t, l.path)) {
			f := strings.SplitN(line, " ", 4)
			if f[2] == "P" {
				f[3] = strings.TrimSuffix(f[3], "\n")
			}
			if len(f[3]) > maxLogLine+1 {
				r.Fatalf("a line of %d bytes", len(f[3]))
			}
			back.WriteString(f[3])
		}
		if back.String() != all.String() {
			r.Fatalf("%d bytes back, want %d", back.Len(), all.Len())
		}
	})
}
