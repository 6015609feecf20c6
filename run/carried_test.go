package run

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/history"
)

func TestCarriedCountsOpenSessionsByPod(t *testing.T) {
	var c carried
	open := func(id, proxy, agent string) {
		c.tap(history.Event{Data: history.SessionOpened{ID: id, Proxy: history.PodRef{UID: proxy}, Agent: history.Agent{Pod: history.PodRef{UID: agent}}}})
	}
	end := func(id string) { c.tap(history.Event{Data: history.Session{ID: id}}) }
	end("t/0") // the first of all was refused
	open("t/1", "p1", "a1")
	open("t/2", "p1", "a2")
	open("t/3", "p2", "a1")
	open("t/4", "", "a1") // through the Service: nobody knows by which proxy
	end("t/2")
	end("t/5") // refused: never open
	end("t/2") // told twice
	if diff := cmp.Diff(map[types.UID]int{"p1": 1, "p2": 1, "a1": 3}, c.now()); diff != "" {
		t.Error(diff)
	}
}
