// Package statetest is what every state.Store must do.
package statetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"shakedown.dev/shakedown/standin/state"
)

// Run checks store, which must be empty.
func Run(t *testing.T, store state.Store) {
	ctx := t.Context()
	item := func(key, value string) state.Item { return state.Item{Key: key, Value: []byte(value)} }
	check(t, "get what is not there", get(ctx, store, "roles/a"), state.ErrNotFound)
	check(t, "create", store.Create(ctx, item("roles/a", "1")), nil)
	check(t, "create again", store.Create(ctx, item("roles/a", "2")), state.ErrExists)
	wantValue(t, store, "roles/a", "1")
	check(t, "put over it", store.Put(ctx, item("roles/a", "3")), nil)
	wantValue(t, store, "roles/a", "3")
	check(t, "delete", store.Delete(ctx, "roles/a"), nil)
	check(t, "delete again", store.Delete(ctx, "roles/a"), state.ErrNotFound)

	won := make(chan string, 20)
	var all sync.WaitGroup
	for i := range cap(won) {
		all.Go(func() {
			if value := fmt.Sprint(i); store.Create(ctx, item("authorities/host", value)) == nil {
				won <- value
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Errorf("%d of 20 creations at once succeeded, want one", len(won))
	}
	wantValue(t, store, "authorities/host", <-won)

	gone := item("roles/b", "old")
	gone.Expires = time.Now().Add(-time.Second)
	check(t, "put what has expired", store.Put(ctx, gone), nil)
	check(t, "get what has expired", get(ctx, store, "roles/b"), state.ErrNotFound)
	check(t, "create over what has expired", store.Create(ctx, item("roles/b", "new")), nil)

	// 1,100 items: more than one page of any store.
	for i := range 1100 {
		check(t, "put", store.Put(ctx, item(fmt.Sprintf("events/%05d", i), "x")), nil)
	}
	check(t, "put a neighbour", store.Put(ctx, item("eventsbut/1", "x")), nil)
	wantRange(t, store)
	items, err := store.List(ctx, "events/")
	if err != nil || len(items) != 1100 {
		t.Fatalf("list: got %d items and %v, want 1100", len(items), err)
	}
	for i, got := range items {
		if want := fmt.Sprintf("events/%05d", i); got.Key != want {
			t.Fatalf("item %d of the list is %s, want %s", i, got.Key, want)
		}
	}
}

func wantRange(t *testing.T, store state.Store) {
	t.Helper()
	items, err := store.Range(t.Context(), "events/00010", "events/00013")
	if err != nil || len(items) != 3 || items[0].Key != "events/00010" || items[2].Key != "events/00012" {
		t.Errorf("range: got %v and %v, want 10 to 12", items, err)
	}
}

func get(ctx context.Context, store state.Store, key string) error {
	_, err := store.Get(ctx, key)
	return err
}

func wantValue(t *testing.T, store state.Store, key, want string) {
	t.Helper()
	got, err := store.Get(t.Context(), key)
	if err != nil || string(got.Value) != want {
		t.Errorf("%s: got %q and %v, want %q", key, got.Value, err, want)
	}
}

func check(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
