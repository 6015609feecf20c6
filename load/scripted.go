package load

import (
	"regexp"
	"time"

	"shakedown.dev/shakedown/load/lines"
	"shakedown.dev/shakedown/scenarios"
)

// steps sends, expects and waits as the scenario says.
type steps struct {
	script []scenarios.Line
	expect []*regexp.Regexp // of the same index; nil where nothing is expected

	step   int
	at     time.Duration // of the step, where it is not an expectation
	waited time.Duration // since when an expectation waits
	seen   []byte        // what came and was not yet expected
}

// maxSeen bounds what is kept for an expectation to find.
const maxSeen = 16 << 10

func scripted(d scenarios.Drawn) script {
	s := &steps{script: d.Session.Script, expect: make([]*regexp.Regexp, len(d.Session.Script))}
	for i, l := range s.script {
		if l.Expect != "" {
			s.expect[i] = regexp.MustCompile(l.Expect) // checked when the scenario was read
		}
	}
	return s
}

func (s *steps) begin(now time.Duration) { s.enter(now) }

// enter begins the present step.
func (s *steps) enter(now time.Duration) {
	s.at, s.waited = now, 0
	if s.done() {
		return
	}
	switch l := s.script[s.step]; {
	case l.Wait > 0:
		s.at = now + l.Wait.Duration()
	case s.expect[s.step] != nil:
		s.at, s.waited = never, now
	}
}

func (s *steps) next() time.Duration {
	if s.done() {
		return never
	}
	return s.at
}

func (s *steps) act(now time.Duration, buf []byte) []byte {
	for !s.done() && now >= s.at {
		if text := s.script[s.step].Send; text != "" {
			buf = append(append(buf, text...), '\n')
		}
		s.step++
		s.enter(now)
		s.find(now)
	}
	return buf
}

func (s *steps) output(now time.Duration, p []byte, _ *lines.Tally) {
	s.seen = append(s.seen, p...)
	if over := len(s.seen) - maxSeen; over > 0 {
		s.seen = s.seen[over:]
	}
	s.find(now)
}

// find goes on for as long as what came is what is expected.
func (s *steps) find(now time.Duration) {
	for !s.done() && s.expect[s.step] != nil {
		m := s.expect[s.step].FindIndex(s.seen)
		if m == nil {
			return
		}
		s.seen = append(s.seen[:0], s.seen[m[1]:]...)
		s.step++
		s.enter(now)
	}
}

func (s *steps) owed() time.Duration { return s.waited }
func (s *steps) done() bool          { return s.step >= len(s.script) }
func (s *steps) sent() uint64        { return 0 }
