package run

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/helm"
)

// planFor makes the plan of a scenario of the catalogue, changed.
func planFor(t *testing.T, name string, set ...string) *scenarios.Plan {
	t.Helper()
	text, err := scenarios.Text(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenarios.Decode(name+".yaml", text, DecodeOptions(set))
	if err != nil {
		t.Fatal(err)
	}
	plan, _, err := MakePlan(t.Context(), s, "embedded", 1)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestRunStartSaysWhatIsTried(t *testing.T) {
	r := &runner{Options: Options{ProviderName: "embedded", Tool: "test"}, plan: planFor(t, "rollout-under-fire"), env: Env{Run: "r1"}}
	got := r.runStart(clusters.Facts{Name: "c", Version: "v1.36.3", Nodes: []clusters.Node{{Name: "node1"}, {Name: "node2"}}})
	want := history.SUT{Chart: "standin", From: "1.0.0", To: "1.1.0", Standin: true, RecordingMode: "node-sync"}
	if diff := cmp.Diff(want, got.SUT); diff != "" {
		t.Errorf("system under test: %s", diff)
	}
	if diff := cmp.Diff(map[string]int{"auth": 2, "proxy": 3}, got.Desired); diff != "" {
		t.Errorf("replicas that the chart asks for: %s", diff)
	}
	if diff := cmp.Diff([]string{"node1", "node2"}, got.Cluster.Nodes); diff != "" {
		t.Error(diff)
	}
	if len(got.Streams) != 1 || got.Streams[0].Name != "terminals" || got.Bounds.Settle != 20*time.Second {
		t.Errorf("streams %+v, bounds %+v", got.Streams, got.Bounds)
	}
}

func TestRecordingMode(t *testing.T) {
	for _, row := range []struct {
		why, mode string
		values    helm.Values
		want      string
	}{
		{"the scenario says it", "proxy", helm.Set("off", "sessionRecording"), "proxy"},
		{"the chart's values say it", "", helm.Set("node-sync", "sessionRecording"), "node-sync"},
		{"values that leave it empty mean Teleport's default", "", helm.Set("", "sessionRecording"), "node"},
		{"nobody says it", "", helm.Values{}, "node"},
	} {
		p := &scenarios.Plan{}
		p.Recordings.Mode, p.Teleport.From.Values = row.mode, row.values
		if got := (&runner{plan: p}).recordingMode(); got != row.want {
			t.Errorf("%s: %s, want %s", row.why, got, row.want)
		}
	}
}

func TestTimesOfTeleportAreShortenedOnlyInTheStandin(t *testing.T) {
	for _, row := range []struct {
		why, chart string
		factor     any
		want       time.Duration
	}{
		{"nothing is said", "standin", nil, 10 * time.Minute},
		{"a whole number, as YAML gives it", "standin", int64(100), 6 * time.Second},
		{"as JSON gives it", "standin", 100.0, 6 * time.Second},
		{"as Go has it", "standin", 100, 6 * time.Second},
		{"less than one does not lengthen", "standin", 0.5, 10 * time.Minute},
		{"the real one takes its time whatever a value says", "oci://example.com/teleport-cluster", 100, 10 * time.Minute},
	} {
		p := &scenarios.Plan{}
		p.Teleport.From.Chart, p.Teleport.From.Values = row.chart, helm.Values{}
		if row.factor != nil {
			p.Teleport.From.Values = helm.Set(row.factor, "standin", "timeFactor")
		}
		if got := (&runner{plan: p}).shortened(10 * time.Minute); got != row.want {
			t.Errorf("%s: %s, want %s", row.why, got, row.want)
		}
	}
}
