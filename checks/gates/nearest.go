package gates

import (
	"maps"
	"slices"
	"strings"
)

// nearest says which allowed word is close to the wrong one, or else which words there are.
func nearest(wrong string, allowed []string) string {
	best, distance := "", len(wrong)/3+2
	for _, w := range allowed {
		if d := editDistance(strings.ToLower(wrong), strings.ToLower(w)); d < distance {
			best, distance = w, d
		}
	}
	switch {
	case best != "":
		return "did you mean " + best + "?"
	case len(allowed) == 0:
		return "there is none to name"
	}
	return "there is " + strings.Join(allowed, ", ")
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

func keys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func methodNames(objects map[string]objectType) []string {
	all := map[string]string{}
	for _, o := range objects {
		maps.Copy(all, o.methods)
	}
	return keys(all)
}
