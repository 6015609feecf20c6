package scenarios

import (
	"strings"
	"testing"
)

const prometheusScenario = `apiVersion: shakedown.dev/v1alpha1
kind: Scenario
metadata: {name: x, description: x}
spec:
  teleport: {from: {chart: standin}}
  load: [{name: a, session: {kind: ssh, behaviour: idle, length: 1m}, arrival: {closed: {held: 5}}}]
  timeline: [{name: warmup, wait: 1s}]
  expect: [{name: x, that: "true"}]
  prometheus: `

func TestPrometheus(t *testing.T) {
	for _, tt := range []struct{ says, text, err string }{
		{"all of it", `{url: "http://p.m.svc:9090", queries: [{name: q, query: up, during: warmup, missing: zero, plot: true}]}`, ""},
		{"no scheme", `{url: "p.m.svc:9090", queries: [{name: q, query: up}]}`, "begins with neither http:// nor https://"},
		{"an unknown phase", `{url: "http://p", queries: [{name: q, query: up, during: warmpu}]}`, "unknown phase warmpu"},
		{"two windows", `{url: "http://p", queries: [{name: q, query: up, during: warmup, after: warmup}]}`, "not both"},
		{"a name twice", `{url: "http://p", queries: [{name: q, query: up}, {name: q, query: down}]}`, "stands here twice"},
		{"an unknown policy", `{url: "http://p", queries: [{name: q, query: up, missing: pass}]}`, "missing"},
		{"no query", `{url: "http://p", queries: [{name: q}]}`, "query"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			s, err := Decode("x.yaml", []byte(prometheusScenario+tt.text+"\n"), Options{Words: Words()})
			if tt.err == "" {
				if err != nil || s.Prometheus == nil || !s.Prometheus.Queries[0].Plot || s.Prometheus.Queries[0].Missing != MissingZero || s.Names().Queries[0] != "q" {
					t.Fatalf("got %+v, %v", s, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), "x.yaml:") {
				t.Errorf("got %v, want %q with its place", err, tt.err)
			}
		})
	}
}

func TestProbesStop(t *testing.T) {
	for _, tt := range []struct {
		says, probe, timeline string
		want                  bool
	}{
		{"nothing stops a proxy", "auto", `[{name: a, wait: 1s}, {name: b, do: {podDelete: {select: {component: auth}}}}]`, false},
		{"a proxy is deleted", "auto", `[{name: b, do: {podDelete: {select: {component: proxy}}}}]`, true},
		{"only auths are restarted", "auto", `[{name: b, do: {restart: {component: auth}}}]`, false},
		{"a node that runs a proxy is drained", "auto", `[{name: b, do: {nodeDrain: {select: {node: {running: proxy}}}}}]`, true},
		{"a node is cut off, which stops nothing", "auto", `[{name: b, do: {nodePause: {select: {node: {running: proxy}}, for: 5s}}}]`, false},
		{"whatever happens", "always", `[{name: a, wait: 1s}]`, true},
		{"the author does not want it", "never", `[{name: b, do: {podDelete: {select: {component: proxy}}}}]`, false},
	} {
		t.Run(tt.says, func(t *testing.T) {
			text := strings.NewReplacer("teleport: {", "teleport: {probe: "+tt.probe+", ", "[{name: warmup, wait: 1s}]", tt.timeline, "  prometheus: ", "").Replace(prometheusScenario)
			s, err := Decode("x.yaml", []byte(text+"\n"), Options{Words: Words()})
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPlan(s, Facts{}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if p.ProbesStop() != tt.want {
				t.Errorf("it probes: %t", p.ProbesStop())
			}
		})
	}
}
