package helm

import (
	"maps"

	chartapi "helm.sh/helm/v4/pkg/chart"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// Values are the values of a release, as in a values file.
type Values = map[string]any

// Merge lays over upon base, deeply where both have a map, and leaves both as they are. A nil in over stays: to
// Helm it means that the chart's default is to be deleted.
func Merge(base, over Values) Values {
	out := maps.Clone(base)
	if out == nil {
		out = Values{}
	}
	for k, v := range over {
		low, ok1 := out[k].(Values)
		high, ok2 := v.(Values)
		if ok1 && ok2 {
			out[k] = Merge(low, high)
		} else if ok2 {
			out[k] = Merge(nil, high)
		} else {
			out[k] = v
		}
	}
	return out
}

// Get gives the value at a path of keys, and whether there is one.
func Get(v Values, path ...string) (any, bool) {
	var at any = v
	for _, key := range path {
		m, ok := at.(Values)
		if !ok {
			return nil, false
		}
		if at, ok = m[key]; !ok {
			return nil, false
		}
	}
	return at, true
}

// Set makes a value with only that path in it, to be merged.
func Set(value any, path ...string) Values {
	for i := len(path) - 1; i > 0; i-- {
		value = Values{path[i]: value}
	}
	return Values{path[0]: value}
}

func dependencies(c *chart.Chart) []chartapi.Dependency {
	var out []chartapi.Dependency
	for _, d := range c.Metadata.Dependencies {
		out = append(out, d)
	}
	return out
}
