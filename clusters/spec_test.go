package clusters_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"shakedown.dev/shakedown/clusters"
)

func TestValidate(t *testing.T) {
	good := clusters.Spec{Name: "dev-1", Nodes: 3}
	for _, row := range []struct {
		why    string
		change func(*clusters.Spec)
		says   []string // all of these; none means valid
	}{
		{"three nodes are fine", func(*clusters.Spec) {}, nil},
		{"the largest of all", func(s *clusters.Spec) {
			s.Nodes, s.HollowNodes, s.APIPort, s.NodeMonitorGrace = 64, 5000, 65535, 3*time.Second
		}, nil},
		{"no node", func(s *clusters.Spec) { s.Nodes = 0 }, []string{"0 nodes: want 1 to 64"}},
		{"a name with capitals", func(s *clusters.Spec) { s.Name = "Dev" }, []string{`cluster name "Dev"`}},
		{"a name that would be a path", func(s *clusters.Spec) { s.Name = "../1/x" }, []string{"cluster name"}},
		{"no name", func(s *clusters.Spec) { s.Name = "" }, []string{"cluster name"}},
		{"a grace of nothing", func(s *clusters.Spec) { s.NodeMonitorGrace = time.Second }, []string{"grace 1s"}},
		{"a negative grace", func(s *clusters.Spec) { s.NodeMonitorGrace = -time.Second }, []string{"grace -1s"}},
		{"a port that is none", func(s *clusters.Spec) { s.APIPort = 65536 }, []string{"API port 65536"}},
		{"an image from nowhere", func(s *clusters.Spec) { s.Images = []clusters.Image{{Name: "a"}} }, []string{"NAME=SOURCE"}},
		{"an image twice", func(s *clusters.Spec) {
			s.Images = []clusters.Image{{Name: "a", Source: "b"}, {Name: "a", Source: "c"}}
		}, []string{"given twice"}},
		{"all problems at once", func(s *clusters.Spec) { s.Nodes, s.HollowNodes = 65, -1 }, []string{"65 nodes", "-1 hollow nodes"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := good
			row.change(&s)
			err := s.Validate()
			if (err == nil) != (row.says == nil) {
				t.Fatalf("got %v", err)
			}
			for _, says := range row.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v does not say %q", err, says)
				}
			}
		})
	}
}

func TestParseImage(t *testing.T) {
	for _, row := range []struct {
		why, text string
		want      clusters.Image
		ok        bool
	}{
		{"a folder", "teleport:dev=host:./build", clusters.Image{Name: "teleport:dev", Source: "host:./build"}, true},
		{"the first = divides", "a=b=c", clusters.Image{Name: "a", Source: "b=c"}, true},
		{"no source", "a=", clusters.Image{}, false},
		{"no name", "=b", clusters.Image{}, false},
		{"neither", "a", clusters.Image{}, false},
	} {
		if got, err := clusters.ParseImage(row.text); got != row.want || (err == nil) != row.ok {
			t.Errorf("%s: %+v, %v", row.why, got, err)
		}
	}
}

// none is a provider without clusters, or with an error.
type none struct{ err error }

func (none) Up(context.Context, clusters.Spec) (clusters.Cluster, error) { return nil, nil }
func (none) Down(context.Context, string) error                          { return nil }
func (n none) List(context.Context) ([]clusters.Cluster, error)          { return nil, n.err }

func TestFind(t *testing.T) {
	if _, err := clusters.Find(t.Context(), none{}, "a"); !errors.Is(err, clusters.ErrNotFound) || !strings.Contains(err.Error(), "cluster a") {
		t.Errorf("no cluster: %v", err)
	}
	broken := errors.New("broken")
	if _, err := clusters.Find(t.Context(), none{broken}, "a"); !errors.Is(err, broken) {
		t.Errorf("a list that fails: %v", err)
	}
}
