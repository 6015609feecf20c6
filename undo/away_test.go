package undo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"shakedown.dev/shakedown/clusters"
)

// stopped is a world whose API answers nothing while the rule "stopped" is in force.
type stopped struct {
	*world
	name    string
	started time.Time
}

func (s stopped) Name() string { return s.name }

func (s stopped) Facts(context.Context) (clusters.Facts, error) {
	return clusters.Facts{Started: s.started}, nil
}

func TestHealWhereTheRunStoppedTheAPI(t *testing.T) {
	for _, row := range []struct {
		why     string
		name    string
		started time.Duration // after the log's head
		undone  int           // of two changes; -1: nothing is touched and the error is told
	}{
		{"the cluster stood before the log began: it is the run's", "c1", -time.Minute, 2},
		{"a cluster of another name", "c2", -time.Minute, -1},
		{"one that was made anew under the name", "c1", time.Minute, -1},
	} {
		t.Run(row.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				_, err := w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid-system"}}, metav1.CreateOptions{})
				check(t, err)
				away := errors.New("no answer")
				w.client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return w.rules["stopped"], nil, away })
				l, _ := create(t, nil)
				l.head.Cluster = "c1"
				for _, c := range []Change{
					{Kind: CommandRun, What: "stop the API server", Prior: asJSON(Command{Undo: []string{"drop", "stopped"}, Check: []string{"gone", "stopped"}})},
					{Kind: NodeCordoned, What: "cordon node1", Object: Object{Name: "node1", UID: "uid-node1"}},
				} {
					_, err := l.Intend(t.Context(), c)
					check(t, err)
				}
				w.rules["stopped"] = true
				results, err := Heal(t.Context(), l, Cluster{Client: w.client, Cluster: stopped{w, row.name, l.begun.Add(row.started)}})
				if row.undone < 0 {
					if !errors.Is(err, away) || len(results) > 0 || !w.rules["stopped"] {
						t.Errorf("%v, %+v, stopped: %t; want the error, and nothing touched", err, results, w.rules["stopped"])
					}
					return
				}
				check(t, err)
				if len(results) != row.undone || len(Failed(results)) > 0 || w.rules["stopped"] {
					t.Errorf("%+v, stopped: %t; want %d undone", results, w.rules["stopped"], row.undone)
				}
			})
		})
	}
}
