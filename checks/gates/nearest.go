package gates

import (
	"maps"
	"slices"
	"strings"
)

// nearest gives the allowed word that is close to the wrong one; empty where none is.
func nearest(wrong string, allowed []string) string {
	best, distance := "", len(wrong)/3+2
	for _, w := range allowed {
		if d := editDistance(strings.ToLower(wrong), strings.ToLower(w)); d < distance {
			best, distance = w, d
		}
	}
	return best
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
