package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEveryNthSessionIsStruck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every, limit := rapid.IntRange(0, 7).Draw(t, "every"), rapid.IntRange(0, 5).Draw(t, "limit")
		r := New(nil, Rule{Name: Stall, Every: every, Limit: limit})
		struck := 0
		sessions := rapid.IntRange(0, 50).Draw(t, "sessions")
		for i := range sessions {
			key := fmt.Sprint("s", i)
			_, first := r.Active(Stall, key)
			if _, again := r.Active(Stall, key); again != first {
				t.Fatalf("session %d: struck %t, asked again %t", i, first, again)
			}
			if first {
				struck++
			}
		}
		want := sessions / max(every, 1)
		if limit > 0 {
			want = min(want, limit)
		}
		if struck != want {
			t.Fatalf("%d of %d struck with every=%d limit=%d, want %d", struck, sessions, every, limit, want)
		}
	})
}

func TestAskingWhetherItIsInForceCountsNothing(t *testing.T) {
	r := New(nil, Rule{Name: Stall, Every: 2})
	for range 5 {
		if _, ok := r.Active(Stall, ""); !ok {
			t.Fatal("not in force")
		}
	}
	if _, hit := r.Active(Stall, "first"); hit {
		t.Error("the first session is struck, want the second")
	}
}

func TestAForgottenSessionIsANewOne(t *testing.T) {
	r := New(nil, Rule{Name: Stall, Every: 2})
	_, one := r.Active(Stall, "a")
	r.Forget("a")
	if _, two := r.Active(Stall, "a"); one || !two {
		t.Errorf("struck %t then %t, want the second time alone", one, two)
	}
}

func TestNilRegistryHasNoFaults(t *testing.T) {
	var r *Registry
	if _, hit := r.Active(Stall, "x"); hit {
		t.Error("struck")
	}
	r.Record(Stall, "x", "")
	r.Forget("x")
	r.Leak("x")
	if r.Entries() != nil || r.Rules() != nil {
		t.Error("it holds something")
	}
}

func TestLeakMemoryKeepsAndRecordsIt(t *testing.T) {
	r := New(nil, Rule{Name: LeakMemory, Every: 2, Bytes: 1000})
	for i := range 4 {
		r.Leak(fmt.Sprint(i))
	}
	total := 0
	for _, block := range r.leaked {
		total += len(block)
	}
	if total != 2000 || len(r.Entries()) != 2 {
		t.Errorf("%d bytes kept and %d entries, want 2000 and 2", total, len(r.Entries()))
	}
}

func TestParse(t *testing.T) {
	for _, row := range []struct {
		name, text string
		want       []Rule
		err        string
	}{
		{"nothing is no rule", "", nil, ""},
		{"a name alone strikes all", "stall", []Rule{{Name: Stall}}, ""},
		{"options and several rules", "stall:every=3,after=10s,for=5s; leak-memory:bytes=10,limit=2", []Rule{{Name: Stall, Every: 3, After: 10 * time.Second, For: 5 * time.Second}, {Name: LeakMemory, Bytes: 10, Limit: 2}}, ""},
		{"an unknown fault is refused with the list", "stal", nil, "unknown fault \"stal\", known are drop-silently"},
		{"an unknown option is refused with the list", "stall:evry=3", nil, "allowed are every, limit, bytes, after, for"},
		{"every starts at one", "stall:every=0", nil, "not a whole number from 1"},
		{"a duration needs a unit", "stall:for=5", nil, "missing unit"},
		{"time does not go backwards", "stall:for=-5s", nil, "must not be negative"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := Parse(row.text)
			if row.err != "" {
				if err == nil || !strings.Contains(err.Error(), row.err) {
					t.Errorf("got %v, want %q", err, row.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestControlChangesARunningRegistry(t *testing.T) {
	dir := t.TempDir()
	sink, err := FileSink(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := New(sink)
	control, err := Serve(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = control.Close() })
	remote, ctx := Dial(dir), t.Context()
	if err := remote.Set(ctx, Rule{Name: Stall, For: time.Second}); err != nil {
		t.Fatal(err)
	}
	if rule, hit := r.Active(Stall, "a"); !hit || rule.For != time.Second {
		t.Errorf("after set: %v %t", rule, hit)
	}
	r.Record(Stall, "a", "stopped answering")
	entries, err := remote.Record(ctx)
	if err != nil || len(entries) != 1 || entries[0].Session != "a" {
		t.Errorf("record: %v and %v", entries, err)
	}
	if err := remote.Clear(ctx, Stall); err != nil {
		t.Fatal(err)
	}
	if rules, err := remote.Rules(ctx); err != nil || len(rules) != 0 {
		t.Errorf("after clear: %v and %v", rules, err)
	}
	if err := remote.Set(ctx, Rule{Name: "nonsense"}); err == nil || !strings.Contains(err.Error(), "unknown fault") {
		t.Errorf("an unknown fault: got %v", err)
	}
}
