package scenarios

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Position is where something stands in a scenario file; Line and Column count
// from 1, and 0 means that it does not stand there but was defaulted.
type Position struct {
	Line, Column int
	set          string // the --set it came from instead
}

// Problem is one thing that is wrong with a scenario.
type Problem struct {
	File string // or the --set that it came from; then Line is 0
	Position
	Path    string // such as spec.load[0].arrival
	Message string
	Nearest string   // what was probably meant
	Allowed []string // what may stand there
}

// String is one line: file:line:column: path: message; help.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Nearest != "" {
		fmt.Fprintf(&b, "; did you mean %q?", p.Nearest)
	}
	if len(p.Allowed) > 0 {
		b.WriteString(" (allowed: " + strings.Join(p.Allowed, ", ") + ")")
	}
	return b.String()
}

// at puts a problem where pos is.
func (p Problem) at(file string, pos Position) Problem {
	p.File, p.Position = file, pos
	if pos.set != "" {
		p.File, p.Position = pos.set, Position{}
	}
	return p
}

// Problems is every problem of a scenario at once, in the order of the file.
type Problems []Problem

// Error has one problem a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// orNil sorts the problems and turns none into nil.
func (p Problems) orNil() error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.CompactFunc(p, func(a, b Problem) bool { return a.String() == b.String() })
}

// nearest is the word of the list that is fewest edits away, if that is few
// enough for a slip of the hand: a third of its length, at least one.
func nearest(word string, list []string) string {
	best, bestAt := "", len(word)/3+2
	for _, candidate := range list {
		if at := edits(strings.ToLower(word), strings.ToLower(candidate)); at < bestAt {
			best, bestAt = candidate, at
		}
	}
	return best
}

// edits is the Damerau-Levenshtein distance (optimal string alignment):
// letters inserted, left out, changed, or two neighbours swapped.
func edits(a, b string) int {
	s, t := []rune(a), []rune(b)
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range t {
		rows[0][j+1] = j + 1
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(s)][len(t)]
}
