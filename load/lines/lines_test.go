package lines

import (
	"bytes"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	token := Token(12345)
	whole := string(bytes.TrimSpace(Append(nil, token, 42, 64)))
	tests := []struct {
		because string
		line    string
		n       uint64
		v       Verdict
	}{
		{"a line as it was typed", whole, 42, Good},
		{"a prompt stands before it", "$ " + whole, 42, Good},
		{"the shortest line", string(bytes.TrimSpace(Append(nil, token, 7, 0))), 7, Good},
		{"another session's line", string(bytes.TrimSpace(Append(nil, Token(9), 42, 64))), 0, Foreign},
		{"words of the server", "the session is about to end", 0, Foreign},
		{"nothing", "", 0, Foreign},
		{"its end is missing", whole[:len(whole)-3], 0, Bad},
		{"a character was added", whole + "x", 0, Bad},
		{"only its beginning", whole[:9], 0, Bad},
		{"a letter inside changed", whole[:20] + "?" + whole[21:], 0, Bad},
		{"the number changed", "~" + token + ":43" + whole[len(token)+4:], 0, Bad},
		{"it begins twice, as after a redrawn prompt", whole[:15] + whole, 42, Good},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			if n, _, v := Parse([]byte(tt.line), token); n != tt.n || v != tt.v {
				t.Errorf("%q: got %d, %d; want %d, %d", tt.line, n, v, tt.n, tt.v)
			}
		})
	}
}

func TestLength(t *testing.T) {
	for _, length := range []int{32, 64, 1024, 4096} {
		if got := len(Append(nil, Token(1), 123, length)); got != length {
			t.Errorf("a line of %d bytes has %d", length, got)
		}
	}
}

func TestTallyIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOf(rapid.Uint64Range(1, 30)).Draw(t, "numbers")
		set := map[uint64]bool{}
		var tally Tally
		for _, n := range numbers {
			if tally.Add(n, nil) == set[n] {
				t.Fatalf("line %d: new is not what the set says", n)
			}
			set[n] = true
		}
		if tally.Count() != uint64(len(set)) {
			t.Fatalf("%d lines, want %d", tally.Count(), len(set))
		}
		last := uint64(0)
		for _, r := range tally.Ranges {
			if r[0] > r[1] || last > 0 && r[0] <= last+1 {
				t.Fatalf("ranges %v", tally.Ranges)
			}
			for n := r[0]; n <= r[1]; n++ {
				if !set[n] {
					t.Fatalf("%d was not added: %v", n, tally.Ranges)
				}
			}
			last = r[1]
		}
	})
}

func TestMissingIsSetDifference(t *testing.T) {
	draw := func(t *rapid.T, name string) (map[uint64]bool, [][2]uint64) {
		set := map[uint64]bool{}
		var tally Tally
		for _, n := range rapid.SliceOf(rapid.Uint64Range(1, 25)).Draw(t, name) {
			set[n] = true
			tally.Add(n, nil)
		}
		return set, tally.Ranges
	}
	rapid.Check(t, func(t *rapid.T) {
		want, wantRanges := draw(t, "want")
		have, haveRanges := draw(t, "have")
		var tally Tally
		for n := range want {
			if !have[n] {
				tally.Add(n, nil)
			}
		}
		var got Tally
		for _, r := range Missing(wantRanges, haveRanges) {
			for n := r[0]; n <= r[1]; n++ {
				if !got.Add(n, nil) {
					t.Fatalf("%d is missing twice", n)
				}
			}
		}
		if diff := cmp.Diff(tally.Ranges, got.Ranges); diff != "" {
			t.Fatalf("want %v, have %v (-expected +got):\n%s", wantRanges, haveRanges, diff)
		}
	})
}

// TestChecker cuts what a terminal gives back into pieces anyhow: the tally must not depend on it.
func TestChecker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := Token(77)
		count := rapid.IntRange(0, 20).Draw(t, "lines")
		var all []byte
		sum := uint32(0)
		var want [][2]uint64
		for n := uint64(1); n <= uint64(count); n++ {
			line := Append(nil, token, n, rapid.IntRange(0, 200).Draw(t, "length"))
			sum = crc32.Update(sum, castagnoli, line)
			all = append(append(all, bytes.TrimSpace(line)...), '\r', '\n')
			want = [][2]uint64{{1, n}}
			if rapid.Bool().Draw(t, "noise") {
				all = append(all, "\x1b[0m some words\r\n"...)
			}
		}
		c := Checker{Token: token}
		for len(all) > 0 {
			n := rapid.IntRange(1, len(all)).Draw(t, "piece")
			_, _ = c.Write(all[:n])
			all = all[n:]
		}
		if diff := cmp.Diff(want, c.Ranges); diff != "" || c.Bad != 0 || c.Sum != sum {
			t.Fatalf("bad %d, sum %x, want %x (-want +got):\n%s", c.Bad, c.Sum, sum, diff)
		}
	})
}

// FuzzChecker: no line that was not typed is ever counted, and nothing panics.
func FuzzChecker(f *testing.F) {
	token := Token(3)
	f.Add(Append(Append(nil, token, 1, 40), token, 2, 40), uint16(7))
	f.Add([]byte("~"+token+":99999999999999999999:x:00000000\n"), uint16(3))
	f.Add([]byte("~"+token+":1::"), uint16(1))
	f.Fuzz(func(t *testing.T, data []byte, piece uint16) {
		c := Checker{Token: token}
		for rest, n := data, int(piece)+1; len(rest) > 0; rest = rest[min(n, len(rest)):] {
			_, _ = c.Write(rest[:min(n, len(rest))])
		}
		if c.Last < c.Count() {
			t.Fatalf("%d lines up to %d", c.Count(), c.Last)
		}
		if len(c.Rest()) > maxLine {
			t.Fatalf("%d bytes kept", len(c.Rest()))
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	b.ReportAllocs()
	buf := make([]byte, 0, 128)
	for n := uint64(1); b.Loop(); n++ {
		buf = Append(buf[:0], "0123456", n, 64)
	}
}

func BenchmarkChecker(b *testing.B) {
	b.ReportAllocs()
	c := Checker{Token: "0123456"}
	buf := make([]byte, 0, 128)
	for n := uint64(1); b.Loop(); n++ {
		buf = Append(buf[:0], "0123456", n, 64)
		_, _ = c.Write(buf)
	}
}
