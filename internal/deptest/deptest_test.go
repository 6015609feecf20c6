package deptest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/internal/deptest"
)

// acting are the packages that change something in the world.
var acting = []string{"run", "load", "chaos", "teleport", "clusters"}

// kubernetes is what brings Kubernetes' own libraries.
var kubernetes = []string{"k8s.io", "sigs.k8s.io/controller-runtime", "sigs.k8s.io/e2e-framework", "sigs.k8s.io/kind", "helm.sh"}

// TestDirection holds cmd → internal/cli → run → {load, chaos, teleport} → clusters, and the two sides
// of the history apart.
func TestDirection(t *testing.T) {
	graph, err := deptest.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(graph["internal/cli"]) == 0 {
		t.Fatal("the graph has no internal/cli: it was not read")
	}
	for _, rule := range []struct {
		from string
		not  []string
		why  string
	}{
		{"history", []string{"cmd", "internal", "run", "load", "chaos", "teleport", "clusters", "checks", "reports", "scenarios", "standin"},
			"the history is the contract between acting and judging: what it imported, both would depend on"},
		{"checks", slices.Concat(acting, kubernetes, []string{"internal/cli"}),
			"a verdict must come out the same from a run folder alone, years later and without a cluster"},
		{"reports", slices.Concat(acting, kubernetes, []string{"internal/cli"}),
			"a report is made from a run folder and nothing else"},
		{"scenarios", []string{"run", "load", "chaos", "teleport", "internal/cli"},
			"a plan is made without touching anything"},
		{"clusters", []string{"run", "load", "chaos", "teleport", "checks", "reports", "scenarios", "internal/cli"},
			"a cluster knows nothing of what is done to it"},
		{"load", []string{"run", "chaos", "checks", "reports", "internal/cli"},
			"load must not know of faults, or it could be kind to them"},
		{"chaos", []string{"run", "load", "checks", "reports", "internal/cli"},
			"a fault must not know of the load, or it could spare it"},
		{"teleport", []string{"run", "load", "chaos", "checks", "reports", "internal/cli"},
			"the system under test is looked at from outside, by whoever asks"},
		{"run", []string{"internal/cli", "cmd"},
			"a run is a library: the command line is one of its users"},
		{"internal/cli", []string{"cmd"},
			"main is ten lines that nothing can need"},
		{"standin", slices.Concat(acting, []string{"checks", "reports", "history", "scenarios", "internal/cli"}),
			"what is measured must not share code with what measures: a bug in both would be seen by neither"},
	} {
		if way := graph.Way(rule.from, rule.not...); way != nil {
			t.Errorf("%s: %s", strings.Join(way, " → "), rule.why)
		}
	}
}

// TestMainKnowsOnlyTheCommandLine: main cannot be tested, so nothing is in it.
func TestMainKnowsOnlyTheCommandLine(t *testing.T) {
	graph, err := deptest.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"internal/cli"}, graph["cmd/shakedown"]); diff != "" {
		t.Error("imports of cmd/shakedown:", diff)
	}
}

func TestWay(t *testing.T) {
	g := deptest.Graph{
		"checks":         {"fmt", "history"},
		"checks/gates":   {"internal/tools"},
		"checksums":      {"clusters"},
		"internal/tools": {"clusters/kind"},
		"clusters/kind":  {"k8s.io/client-go/rest", "checks"},
	}
	for _, row := range []struct {
		why  string
		from string
		to   []string
		want []string
	}{
		{"through other packages", "checks", []string{"clusters"}, []string{"checks/gates", "internal/tools", "clusters/kind"}},
		{"to the world outside", "checks", []string{"k8s.io"}, []string{"checks/gates", "internal/tools", "clusters/kind", "k8s.io/client-go/rest"}},
		{"a folder is not what its name begins with", "checks", []string{"clust"}, nil},
		{"directly", "checksums", []string{"clusters"}, []string{"checksums", "clusters"}},
		{"nowhere", "checks", []string{"load"}, nil},
		{"round to itself is no way out", "checks", []string{"checks"}, nil},
	} {
		t.Run(row.why, func(t *testing.T) {
			if diff := cmp.Diff(row.want, g.Way(row.from, row.to...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
