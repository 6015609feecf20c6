package run

import (
	"errors"
	"strings"
	"testing"

	"shakedown.dev/shakedown/internal/exit"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/lab"
)

// TestAgentsThatWereSentElsewhere: a cluster name that is not the proxies' own explains agents that never join.
func TestAgentsThatWereSentElsewhere(t *testing.T) {
	s := &system{facts: lab.Facts{Release: "teleport", Namespace: "lab"}}
	for _, row := range []struct {
		why, name string
		hint      bool
	}{
		{"the Service's own name", "teleport.lab.svc.cluster.local", false},
		{"a name that leads elsewhere", "teleport.example.com", true},
	} {
		s.values = helm.Values{"clusterName": row.name}
		hint := exit.HintOf(s.astray(errors.New("agents: 0 of 2 registered")))
		if got := strings.Contains(hint, row.name) && strings.Contains(hint, "teleport.lab.svc.cluster.local"); got != row.hint {
			t.Errorf("%s: hint %q", row.why, hint)
		}
	}
}
