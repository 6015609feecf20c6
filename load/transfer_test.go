package load

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// sink is `head -c size | sha256sum`.
func sink(size int, spoil bool) func(*program, string) {
	sum, n := sha256.New(), 0
	return func(p *program, text string) {
		text = text[:min(len(text), size-n)]
		if spoil && n == 0 {
			text = "x" + text[1:]
		}
		sum.Write([]byte(text))
		if n += len(text); n == size {
			p.say([]byte(hex.EncodeToString(sum.Sum(nil)) + "  -\n"))
			p.over(ended{Exited: true})
		}
	}
}

func TestUpload(t *testing.T) {
	tests := []struct {
		because string
		size    int64
		rate    int64
		answer  func(*program, string)
		lasting time.Duration
		class   history.Class
		reason  string
		took    time.Duration
	}{
		{"all arrives", 100_000, 0, sink(100_000, false), time.Minute, history.Clean, "", 0},
		{"a single byte", 1, 0, sink(1, false), time.Minute, history.Clean, "", 0},
		{"at a rate", 100_000, 10_000, sink(100_000, false), time.Minute, history.Clean, "", 10 * time.Second},
		{"a byte is changed on the way", 100_000, 0, sink(100_000, true), time.Minute, history.Dropped, "the far side has the checksum", 0},
		{"the far side ends early", 100_000, 10_000, sink(20_000, false), time.Minute, history.Dropped, "it ended after", 0},
		{"the checksum never comes", 1000, 0, nil, time.Minute, history.Stalled, "no answer", 0},
		{"the run ends before it", 100_000, 1000, sink(100_000, false), 10 * time.Second, history.Unfinished, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProgram(nil)
				p.inOrder = tt.answer
				s := one(t, scenarios.Session{Behaviour: "transfer", Direction: "up", Size: tt.size, Rate: tt.rate}, p, tt.lasting)
				if s.Class != tt.class || !strings.Contains(s.Reason, tt.reason) {
					t.Fatalf("got %s (%s)", s.Class, s.Reason)
				}
				if tt.class == history.Clean && s.BytesSent != tt.size {
					t.Errorf("%d bytes sent of %d", s.BytesSent, tt.size)
				}
				if took := s.End - s.Open; tt.took > 0 && (took-tt.took).Abs() > time.Second {
					t.Errorf("took %s, want about %s", took, tt.took)
				}
				if !strings.HasPrefix(p.launched.Command, "head -c ") || s.Recorded || p.launched.Terminal {
					t.Errorf("launched %+v, recorded %t", p.launched, s.Recorded)
				}
			})
		})
	}
}

func TestDownload(t *testing.T) {
	const size = 100_000
	var all numbers
	right := string(all.fill(nil, size)[:size])
	tests := []struct {
		because string
		rate    int64
		comes   string
		hangs   bool
		class   history.Class
		reason  string
		took    time.Duration
	}{
		{"all arrives", 0, right, false, history.Clean, "", 0},
		{"at a rate", 10_000, right, false, history.Clean, "", 10 * time.Second},
		{"a tail is missing", 0, right[:size-1], false, history.Dropped, "99999 of 100000 bytes came", 0},
		{"something comes behind it", 0, right + "x", false, history.Dropped, "byte 100001 is not", 0},
		{"lines are missing inside", 0, right[:100] + right[200:], false, history.Dropped, "is not what was sent", 0},
		{"nothing more comes", 0, right[:50_000], true, history.Stalled, "no answer", 0},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProgram(nil)
				go func() {
					for rest := []byte(tt.comes); len(rest) > 0; {
						n := min(len(rest), 1000)
						if !p.say(rest[:n]) {
							return
						}
						rest = rest[n:]
					}
					if !tt.hangs {
						p.over(ended{Exited: true})
					}
				}()
				s := one(t, scenarios.Session{Behaviour: "transfer", Direction: "down", Size: size, Rate: tt.rate}, p, time.Minute)
				if s.Class != tt.class || !strings.Contains(s.Reason, tt.reason) {
					t.Fatalf("got %s (%s)", s.Class, s.Reason)
				}
				if tt.class == history.Clean && s.BytesReceived != size {
					t.Errorf("%d bytes received", s.BytesReceived)
				}
				if took := s.End - s.Open; tt.took > 0 && (took-tt.took).Abs() > time.Second {
					t.Errorf("took %s, want about %s", took, tt.took)
				}
			})
		})
	}
}
