package lines

import (
	"bytes"
	"hash/crc32"
	"slices"
)

// Tally is which lines of a session were seen. The zero value has seen none.
type Tally struct {
	Ranges [][2]uint64 // seen, inclusive, ascending, not adjacent
	Bad    uint64      // came back changed
	Sum    uint32      // CRC-32C of the good lines one after another, each with its newline, in the order they came
	Last   uint64      // the highest number seen
}

// Add counts the line n with its text; it says whether the line is new. A line that comes again, as a terminal's
// own echo makes it, changes nothing.
func (t *Tally) Add(n uint64, text []byte) bool {
	if !t.insert(n) {
		return false
	}
	t.Sum = crc32.Update(t.Sum, castagnoli, text)
	t.Sum = crc32.Update(t.Sum, castagnoli, newline)
	t.Last = max(t.Last, n)
	return true
}

var newline = []byte{'\n'}

func (t *Tally) insert(n uint64) bool {
	if k := len(t.Ranges); k > 0 && t.Ranges[k-1][1]+1 == n {
		t.Ranges[k-1][1] = n // nearly always
		return true
	}
	i, found := slices.BinarySearchFunc(t.Ranges, n, func(r [2]uint64, n uint64) int {
		switch {
		case r[1] < n:
			return -1
		case r[0] > n:
			return 1
		}
		return 0
	})
	if found {
		return false
	}
	t.Ranges = slices.Insert(t.Ranges, i, [2]uint64{n, n})
	t.join(i)
	return true
}

// join makes one range of i and its neighbours where they touch.
func (t *Tally) join(i int) {
	if i+1 < len(t.Ranges) && t.Ranges[i][1]+1 == t.Ranges[i+1][0] {
		t.Ranges[i][1] = t.Ranges[i+1][1]
		t.Ranges = slices.Delete(t.Ranges, i+1, i+2)
	}
	if i > 0 && t.Ranges[i-1][1]+1 == t.Ranges[i][0] {
		t.Ranges[i-1][1] = t.Ranges[i][1]
		t.Ranges = slices.Delete(t.Ranges, i, i+1)
	}
}

// Count is how many lines were seen.
func (t *Tally) Count() (n uint64) {
	for _, r := range t.Ranges {
		n += r[1] - r[0] + 1
	}
	return n
}

// Holes are how many lines below the last one were not seen.
func (t *Tally) Holes() uint64 { return t.Last - t.Count() }

// Missing gives the numbers in want that are not in have; both are ranges as in Tally.
func Missing(want, have [][2]uint64) [][2]uint64 {
	var out [][2]uint64
	j := 0
	for _, w := range want {
		from := w[0]
		for ; j < len(have) && have[j][1] < from; j++ {
		}
		for k := j; k < len(have) && have[k][0] <= w[1] && from <= w[1]; k++ {
			if have[k][0] > from {
				out = append(out, [2]uint64{from, have[k][0] - 1})
			}
			from = have[k][1] + 1
		}
		if from <= w[1] {
			out = append(out, [2]uint64{from, w[1]})
		}
	}
	return out
}

// Checker takes what a terminal gives back, in pieces as they come, and tallies the lines in it.
type Checker struct {
	Tally
	Token string
	// Foreign is called for lines that are not the session's; nil: they are passed over. The text is valid only
	// during the call.
	Foreign func(text []byte)
	// New is called for each good line that is new.
	New func(n uint64)

	rest []byte // of a line whose end has not come
}

// maxLine bounds what is kept of a line without end; terminals break no line of ours, which are shorter.
const maxLine = 8192

// Write takes the next piece. It never fails.
func (c *Checker) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		if len(c.rest) > 0 {
			c.rest = append(c.rest, p[:i]...)
			c.line(c.rest)
			c.rest = c.rest[:0]
		} else {
			c.line(p[:i])
		}
		p = p[i+1:]
	}
	if c.rest = append(c.rest, p...); len(c.rest) > maxLine {
		c.line(c.rest)
		c.rest = c.rest[:0]
	}
	return n, nil
}

// Rest is the beginning of a line whose end has not come.
func (c *Checker) Rest() []byte { return c.rest }

func (c *Checker) line(line []byte) {
	line = bytes.TrimRight(line, "\r")
	n, text, v := Parse(line, c.Token)
	switch {
	case v == Bad:
		c.Bad++
	case v == Good:
		if c.Add(n, text) && c.New != nil {
			c.New(n)
		}
	case c.Foreign != nil && len(line) > 0:
		c.Foreign(line)
	}
}
