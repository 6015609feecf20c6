package scenarios

import (
	"fmt"
	"math"
	"time"
)

// Args are the arguments of an action by parameter name, defaults filled in:
// text, numbers, booleans, lists and maps as JSON has them; durations as text.
// They were checked when the scenario was decoded, so the getters give the
// zero value for what is not there.
type Args map[string]any

// Has says whether the argument was given or defaulted.
func (a Args) Has(name string) bool { _, ok := a[name]; return ok }

// Duration is an argument of type duration.
func (a Args) Duration(name string) time.Duration {
	d, _ := ParseDuration(a.String(name))
	return d
}

// String is an argument of type text or choice.
func (a Args) String(name string) string {
	s, _ := a[name].(string)
	return s
}

// Bool is an argument of type yes or no.
func (a Args) Bool(name string) bool {
	b, _ := a[name].(bool)
	return b
}

// Float is an argument of type share or number.
func (a Args) Float(name string) float64 {
	switch n := a[name].(type) {
	case float64:
		return n
	case int:
		return float64(n)
	case int64:
		return float64(n)
	}
	return 0
}

// Int is an argument that is a whole number: a count, a size, a byte rate.
func (a Args) Int(name string) int { return int(math.Round(a.Float(name))) }

// Strings is an argument that is a list of texts.
func (a Args) Strings(name string) []string {
	switch l := a[name].(type) {
	case []string:
		return l
	case []any: // read back from JSON
		var out []string
		for _, v := range l {
			out = append(out, fmt.Sprint(v))
		}
		return out
	}
	return nil
}

// Map is an argument that is a tree, such as Helm values.
func (a Args) Map(name string) map[string]any {
	m, _ := a[name].(map[string]any)
	return m
}
