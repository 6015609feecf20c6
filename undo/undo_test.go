package undo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func create(t *testing.T, mirror Mirror) (*Log, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	l, err := Create(path, Head{Run: walker, ClusterID: "uid-system"}, mirror)
	check(t, err)
	t.Cleanup(func() { l.Close() })
	return l, path
}

func TestNobodyHealsALivingRun(t *testing.T) {
	l, path := create(t, nil)
	if _, err := Open(path, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("a log in use opens with %v, want ErrLocked", err)
	}
	check(t, l.Close())
	again, err := Open(path, nil)
	check(t, err)
	check(t, again.Close())
}

func TestOpen(t *testing.T) {
	const head = `{"head":{"run":"run-1"},"time":"2026-01-01T00:00:00Z"}` + "\n"
	const intent = `{"id":1,"time":"2026-01-01T00:00:00Z","state":"intent","change":{"kind":"nodeCordoned","what":"cordon node1","object":{"resource":"v1/nodes","name":"node1"}}}` + "\n"
	for _, row := range []struct {
		why, text string
		pending   int
		says      string // of the error; empty: it opens
	}{
		{"a run that changed nothing", head, 0, ""},
		{"an intent without a result may have been carried out", head + intent, 1, ""},
		{"a change that was made is pending", head + intent + `{"id":1,"state":"made","time":"2026-01-01T00:00:00Z"}` + "\n", 1, ""},
		{"one that was undone is not", head + intent + `{"id":1,"state":"undone","time":"2026-01-01T00:00:00Z"}` + "\n", 0, ""},
		{"one that could not be undone is tried again", head + intent + `{"id":1,"state":"unhealed","time":"2026-01-01T00:00:00Z"}` + "\n", 1, ""},
		{"a last line that was cut off was not carried out", head + intent[:40], 0, ""},
		{"a damaged line in the middle is told with its number", head + "x\n" + intent, 0, "line 2"},
		{"a result without its intent", head + `{"id":7,"state":"made","time":"2026-01-01T00:00:00Z"}` + "\n", 0, "entry 7 has no intent"},
		{"an empty file", "", 0, "does not begin with a head"},
	} {
		t.Run(row.why, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), FileName)
			check(t, os.WriteFile(path, []byte(row.text), 0o600))
			l, err := Open(path, nil)
			if row.says != "" {
				if err == nil || !strings.Contains(err.Error(), row.says) {
					t.Fatalf("got %v, want %q", err, row.says)
				}
				return
			}
			check(t, err)
			defer l.Close()
			if got := len(l.Pending()); got != row.pending {
				t.Errorf("%d pending, want %d", got, row.pending)
			}
			if _, err := l.Intend(t.Context(), Change{Kind: NodeCordoned}); err != nil {
				t.Error(err)
			}
			check(t, l.Close())
			again, err := Open(path, nil)
			check(t, err)
			if got := len(again.Pending()); got != row.pending+1 {
				t.Errorf("after one more intent %d pending, want %d", got, row.pending+1)
			}
			check(t, again.Close())
		})
	}
}

// forgetful is a Mirror whose methods fail.
type forgetful struct{ err error }

func (f forgetful) Put(context.Context, Entry) error    { return f.err }
func (f forgetful) Drop(context.Context, Entry) error   { return f.err }
func (f forgetful) Clean(context.Context, string) error { return f.err }

func TestNothingIsChangedWithoutBothCopies(t *testing.T) {
	broken := errors.New("broken")
	l, _ := create(t, forgetful{broken})
	changed := false
	_, err := l.Do(t.Context(), Change{What: "cordon node1"}, func(context.Context) error { changed = true; return nil })
	if !errors.Is(err, broken) || changed {
		t.Errorf("changed: %t, error %v; want nothing changed and the mirror's error", changed, err)
	}
}

// undoers fails as often as said for each entry, and writes down the order.
type undoers struct {
	fails map[int]int
	order []int
	err   error
}

func (u *undoers) Undo(_ context.Context, e Entry) (string, error) {
	u.order = append(u.order, e.ID)
	if u.fails[e.ID] != 0 {
		u.fails[e.ID]--
		return "", u.err
	}
	return "seen", nil
}

func TestHealGoesOnPastErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := create(t, nil)
		for range 3 {
			_, err := l.Intend(t.Context(), Change{Kind: NodeCordoned})
			check(t, err)
		}
		u := &undoers{fails: map[int]int{3: 2, 2: -1}, err: errors.New("broken")}
		began := time.Now()
		results := l.Heal(t.Context(), u)
		if left := Failed(results); len(left) != 1 || left[0].Entry.ID != 2 {
			t.Errorf("not undone: %+v, want entry 2 alone", left)
		}
		if first, last := u.order[0], u.order[len(u.order)-1]; first != 3 || last != 1 {
			t.Errorf("order %v, want from 3 down to 1", u.order)
		}
		if results[0].Tries != 3 {
			t.Errorf("entry 3 took %d tries, want 3", results[0].Tries)
		}
		if took := time.Since(began); took < Patience || took > 2*Patience {
			t.Errorf("took %s, want a little over %s", took, Patience)
		}
		if pending := l.Pending(); len(pending) != 1 || pending[0].State != Unhealed {
			t.Errorf("pending: %+v", pending)
		}
	})
}

func TestFinalErrorsAreNotTriedAgain(t *testing.T) {
	l, _ := create(t, nil)
	_, err := l.Intend(t.Context(), Change{Kind: "ofTheFuture"})
	check(t, err)
	results := l.Heal(t.Context(), Cluster{})
	if len(results) != 1 || results[0].Tries != 1 || !errors.Is(results[0].Err, ErrFinal) {
		t.Errorf("%+v", results)
	}
}

func TestAnotherClusterOfTheSameName(t *testing.T) {
	w := newWorld()
	_, err := w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid-other"}}, metav1.CreateOptions{})
	check(t, err)
	l, _ := create(t, nil)
	_, err = l.Intend(t.Context(), Change{Kind: NodeKilled, Object: Object{Name: "node1"}})
	check(t, err)
	check(t, w.Kill(t.Context(), "node1"))
	results, err := Heal(t.Context(), l, Cluster{Client: w.client, Cluster: w})
	check(t, err)
	if len(Failed(results)) > 0 || w.nodes["node1"] != "killed" {
		t.Errorf("%+v: a node of another cluster was touched (%v)", results, w.nodes)
	}
}

func TestWhatIsNotOursStays(t *testing.T) {
	for _, row := range []struct {
		why     string
		patch   string
		change  Change
		checked string
	}{
		{"a node that somebody else cordoned", `{"spec":{"unschedulable":true}}`,
			Change{Kind: NodeCordoned, Object: Object{Name: "node1", UID: "uid-node1"}}, "not cordoned by this run"},
		{"a node that another run cordoned", `{"metadata":{"annotations":{"` + CordonMark + `":"run-2"}},"spec":{"unschedulable":true}}`,
			Change{Kind: NodeCordoned, Object: Object{Name: "node1", UID: "uid-node1"}}, "not cordoned by this run"},
		{"a node made anew under the old name", `{"metadata":{"annotations":{"` + CordonMark + `":"run-1"}},"spec":{"unschedulable":true}}`,
			Change{Kind: NodeCordoned, Object: Object{Name: "node1", UID: "uid-before"}}, "another has its name"},
		{"a node that is gone", `{}`, Change{Kind: NodeCordoned, Object: Object{Name: "node9"}}, "is gone"},
		{"a taint that is not there", `{}`,
			Change{Kind: NodeTainted, Object: Object{Name: "node1"}, Prior: asJSON(corev1.Taint{Key: "shakedown.dev/taint"})}, "has no taint"},
		{"a node that runs is not restarted", `{}`, Change{Kind: NodeKilled, Object: Object{Name: "node1"}}, "is Ready"},
	} {
		t.Run(row.why, func(t *testing.T) {
			w := newWorld()
			_, err := w.client.CoreV1().Nodes().Patch(t.Context(), "node1", types.MergePatchType, []byte(row.patch), metav1.PatchOptions{})
			check(t, err)
			before := w.state(t)
			w.client.ClearActions()
			checked, err := Cluster{Client: w.client, Cluster: w}.Undo(t.Context(), Entry{Run: walker, Change: row.change})
			if err != nil || !strings.Contains(checked, row.checked) {
				t.Errorf("%q, %v; want %q", checked, err, row.checked)
			}
			if diff := cmp.Diff(before, w.state(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
