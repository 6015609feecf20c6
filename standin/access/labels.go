package access

import (
	"regexp"
	"strings"

	"github.com/gravitational/teleport/api/types"
)

// MatchLabels says whether labels satisfy a role's selector: '*': '*' matches
// all, an empty selector none; values may be globs or ^regular expressions$.
func MatchLabels(selector types.Labels, labels map[string]string) bool {
	if len(selector) == 0 {
		return false
	}
	if all, ok := selector[types.Wildcard]; ok && len(all) == 1 && all[0] == types.Wildcard {
		return true
	}
	for key, wants := range selector {
		value, ok := labels[key]
		if !ok || !matchAny(wants, value) {
			return false
		}
	}
	return true
}

func matchAny(wants []string, value string) bool {
	for _, want := range wants {
		if want == value || want == types.Wildcard || matchPattern(want, value) {
			return true
		}
	}
	return false
}

func matchPattern(want, value string) bool {
	if !strings.HasPrefix(want, "^") || !strings.HasSuffix(want, "$") {
		if !strings.Contains(want, "*") {
			return false
		}
		want = "^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\*`, "(.*)") + "$"
	}
	re, err := regexp.Compile(want)
	return err == nil && re.MatchString(value)
}
