package history

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// State is how much of a history there is.
type State string

// The states. The zero value is a history that was not read to its end.
const (
	Unread    State = ""
	Complete  State = "complete"  // closing record there, counts agree
	Truncated State = "truncated" // cut off: a crash, or the run still goes on
	Corrupt   State = "corrupt"   // damaged: what follows the damage was not read
)

// Status is what a reader says about a history after reading it.
type Status struct {
	State  State
	Events uint64        // read and good
	Last   time.Duration // At of the last good event
	Offset int64         // in the file, where reading stopped
	Detail string        // what was wrong there
	// Lost are events the recorder had to leave out, by kind.
	Lost map[Kind]uint64
	// Unknown are events of kinds this version does not know.
	Unknown map[Kind]uint64
}

// Whole says whether everything that happened is there. Without it a verdict
// can be no better than inconclusive.
func (s Status) Whole() bool { return s.State == Complete && len(s.Lost) == 0 }

// String says it to a person, in one line.
func (s Status) String() string {
	switch s.State {
	case Complete:
		text := fmt.Sprintf("complete, %d events", s.Events)
		if len(s.Lost) > 0 {
			text += ", but the recorder could not keep up and left out " + kindCounts(s.Lost)
		}
		return text
	case Truncated, Corrupt:
		return fmt.Sprintf("%s after event %d (%s into the run, byte %d of the file): %s",
			s.State, s.Events, s.Last.Round(time.Millisecond), s.Offset, s.Detail)
	default:
		return "not read to the end"
	}
}

func kindCounts(m map[Kind]uint64) string {
	parts := make([]string, 0, len(m))
	for k, n := range m {
		parts = append(parts, fmt.Sprintf("%d of %s", n, k))
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}
