package run

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/lab"
)

func TestAuthsBetween(t *testing.T) {
	const s = time.Second
	var a authLives
	for _, e := range []struct {
		at    time.Duration
		pod   string
		part  string
		state history.PodState
	}{
		{1 * s, "first", "auth", history.PodCreated}, {2 * s, "first", "auth", history.PodReady},
		{3 * s, "proxy", "proxy", history.PodCreated},
		{20 * s, "second", "auth", history.PodCreated}, {30 * s, "first", "auth", history.PodGone},
	} {
		a.tap(history.Event{At: e.at, Data: history.PodChange{Pod: history.PodRef{Name: e.pod, UID: e.pod, Component: e.part}, State: e.state}})
	}
	for _, tt := range []struct {
		says        string
		from, until time.Duration
		want        []string
	}{
		{"while one was there", 5 * s, 10 * s, []string{"first"}},
		{"while both were", 10 * s, 25 * s, []string{"first", "second"}},
		{"when the first had gone", 31 * s, 40 * s, []string{"second"}},
		{"before any was", 0, 0, nil},
	} {
		t.Run(tt.says, func(t *testing.T) {
			var got []string
			for _, p := range a.between(tt.from, tt.until) {
				got = append(got, p.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNeedsStorage(t *testing.T) {
	two := helm.Values{"auth": helm.Values{"highAvailability": helm.Values{"replicaCount": 2}}}
	own := helm.Merge(two, helm.Set("dynamodb", "auth", "teleportConfig", "teleport", "storage", "type"))
	for _, tt := range []struct {
		says    string
		values  helm.Values
		standin bool
		want    bool
	}{
		{"one auth has its disk", helm.Values{}, false, false},
		{"two share nothing unless they are given it", two, false, true},
		{"the author says where they store", own, false, false},
		{"a cloud's mode brings its own", helm.Merge(two, helm.Values{"chartMode": "aws"}), false, false},
		{"the stand-in's chart has its own etcd", two, true, false},
	} {
		t.Run(tt.says, func(t *testing.T) {
			p := &scenarios.Plan{Facts: scenarios.Facts{Provider: "existing"}, Teleport: scenarios.Teleport{Namespace: "lab", From: scenarios.Release{Values: tt.values}}}
			s := &system{plan: p, facts: lab.Facts{Release: "teleport", Namespace: "lab", Standin: tt.standin}}
			if err := s.needsStorage("run"); err != nil {
				t.Fatal(err)
			}
			if (s.etcd != nil) != tt.want {
				t.Fatalf("an etcd: %t", s.etcd != nil)
			}
			values, added := s.fill(p.Teleport.From)
			_, stored := helm.Get(values, "auth", "teleportConfig", "teleport", "storage", "peers")
			if stored != tt.want {
				t.Errorf("the values name the etcd: %t", stored)
			}
			if told := len(added) > 0 && added[len(added)-1].Path == "auth.teleportConfig.teleport.storage"; told != tt.want {
				t.Errorf("it is told among what was filled in: %t", told)
			}
			if tt.want && s.etcd.Image != etcdImage {
				t.Errorf("on a cluster without the built-in image it runs %q", s.etcd.Image)
			}
		})
	}
}
