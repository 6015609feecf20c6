package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shakedown.dev/shakedown/clusters"
)

// story is a start-up with a step that works, a note and a step that fails.
func story(p progress) {
	p.Step(clusters.Step{Name: "Starting control plane", State: clusters.StepStarted})
	time.Sleep(2300 * time.Millisecond)
	p.Step(clusters.Step{Name: "Starting control plane", State: clusters.StepDone})
	p.Step(clusters.Step{Name: "already up", State: clusters.StepNote, Detail: "since noon"})
	p.Step(clusters.Step{Name: "Joining nodes", State: clusters.StepStarted})
	time.Sleep(250 * time.Millisecond)
	p.Step(clusters.Step{Name: "Joining nodes", State: clusters.StepFailed, Detail: "said by the error of the command"})
	p.Close()
}

func TestPlainProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		story(&plainProgress{out: &out, clock: newStopwatch()})
		const want = ` • Starting control plane …
 ✓ Starting control plane (2.3s)
 • already up: since noon
 • Joining nodes …
 ✗ Joining nodes (0.2s)
`
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", out.String(), want)
		}
	})
}

func TestSpinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		story(newSpinner(&out))
		got := out.String()
		if n := strings.Count(got, "Starting control plane 🕹️ \r"); n < 20 {
			t.Errorf("drawn %d times in 2.3 s: it does not move", n)
		}
		for _, line := range []string{"\x1b[32m✓\x1b[0m Starting control plane 🕹️ (2.3s)\n", "\x1b[31m✗\x1b[0m Joining nodes 🚜 (0.2s)\n"} {
			if !strings.Contains(got, line) {
				t.Errorf("%q is not in %q", line, got)
			}
		}
		if !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("the moving line is still there: %q", got)
		}
	})
}

func TestNodeSummary(t *testing.T) {
	node := func(state clusters.NodeState) clusters.Node { return clusters.Node{State: state} }
	for _, row := range []struct {
		why   string
		nodes []clusters.Node
		want  string
	}{
		{"all run", []clusters.Node{node("running"), node("running")}, "2"},
		{"a provider that cannot tell", []clusters.Node{node("")}, "1"},
		{"each trouble by its name", []clusters.Node{node("killed"), node("paused"), node("killed")}, "3 (1 paused) (2 killed)"},
		{"hollow ones apart", []clusters.Node{node("running"), {Hollow: true, State: "running"}}, "1+1 hollow"},
	} {
		if got := nodeSummary(row.nodes); got != row.want {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

func TestDescribeDiagnosis(t *testing.T) {
	var out bytes.Buffer
	describe(&out, diagnosis{Providers: []providerDiagnosis{{Provider: "embedded", Findings: []clusters.Finding{
		{Name: "nftables", Required: true, Detail: "the program nft is missing", Do: "install nftables"},
		{Name: "latency", Detail: "no netem", Do: "load sch_netem"},
		{Name: "overlay", OK: true, Required: true, Detail: "works"},
	}}}})
	for _, want := range []string{"✗ nftables", "→ install nftables", "! latency", "→ load sch_netem", "✓ overlay", "No cluster can be made here"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestDescribeUp(t *testing.T) {
	facts := clusters.Facts{Name: clusters.DefaultName, Version: "v1", Nodes: make([]clusters.Node, 3), Limits: clusters.Limits{Hold: true}}
	for _, row := range []struct {
		why    string
		o      upOptions
		has    string
		hasNot string
	}{
		{"the default name needs no flag", upOptions{}, "shakedown cluster kubeconfig --file shakedown.kubeconfig", "--name"},
		{"a kubeconfig that is there is used", upOptions{file: "k"}, "kubectl --kubeconfig k get nodes", "cluster kubeconfig"},
		{"what hangs on this command is not taken down by another", upOptions{foreground: true}, "cluster shell", "cluster down"},
		{"limits that hold are no news", upOptions{}, "3 nodes, Kubernetes v1, 4.1s", "limits"},
	} {
		var out bytes.Buffer
		describeUp(&out, facts, row.o, 4100*time.Millisecond)
		if text := out.String(); !strings.Contains(text, row.has) || strings.Contains(text, row.hasNot) {
			t.Errorf("%s: want %q and not %q in\n%s", row.why, row.has, row.hasNot, text)
		}
	}
}
