package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/undo"
)

// built is the program under test, built once into the folder of the tests' application.
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(appDir, "..", filepath.Base(appDir)+"-program", "shakedown")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/shakedown").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, err
})

func program(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestE2EChaosHeal leaves a cluster as a runner does that was killed with all it had in force, and heals
// it with the program: from the run folder, and from the cluster alone.
func TestE2EChaosHeal(t *testing.T) {
	t.Parallel()
	shakedown := program(t)
	c, err := up(t.Context(), uniqueName("heal"), func(s *clusters.Spec) { s.NodeMonitorGrace = 12 * time.Second })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := provider.Down(context.Background(), c.Name()); err != nil {
			t.Error(err)
		}
	})
	for _, source := range []string{"folder", "cluster"} {
		t.Run(source, func(t *testing.T) {
			s := newSpace(t.Context(), t, c)
			s.apply(served)
			s.ready("web", 3)
			f := newFaults(s)
			by := func(i int) scenarios.Selection {
				return scenarios.Selection{Node: &scenarios.NodeSelection{Ordinal: &i}, Count: 1}
			}
			f.inject(step("cut", "partition", scenarios.Args{"direction": "in", "timeout": "60s"}, scenarios.Selection{Component: "web", All: true}))
			f.inject(step("stop", "containerPause", nil, onePod))
			f.inject(step("cordon", "nodeCordon", nil, by(0)))
			f.inject(step("taint", "nodeTaint", scenarios.Args{"key": "shakedown.dev/taint", "effect": "NoSchedule"}, by(1)))
			f.inject(step("kill", "nodeKill", nil, by(2)))
			pending := len(f.keeper.Undo.Pending())
			s.must(f.keeper.Undo.Close()) // the kernel closes a dead runner's files; nothing else happens
			args := []string{"heal", "-o", "json", f.folder}
			if source == "cluster" {
				args = []string{"heal", "-o", "json", "--name", c.Name()}
			}
			out, err := exec.CommandContext(t.Context(), shakedown, args...).Output()
			if err != nil {
				t.Fatalf("heal: %v\n%s", err, out)
			}
			var told []struct{ Undone bool }
			s.must(json.Unmarshal(out, &told))
			if len(told) != pending || pending < 6 {
				t.Errorf("%d changes healed of %d: %s", len(told), pending, out)
			}
			s.ready("web", 3)
			s.eventually("taints gone", func() error { return cleanNodes(s.ctx, s.cs) })
			nothingLeft(t, c)
			for _, p := range s.pods("web") {
				s.answers(p.Status.PodIP+":8080", func(body string) bool { return body == p.Name })
			}
			if runs, err := undo.Runs(s.ctx, s.cs); err != nil || len(runs) > 0 {
				t.Errorf("the cluster still holds intents of %v (%v)", runs, err)
			}
			f.abandon()
		})
	}
}
