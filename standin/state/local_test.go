package state_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"shakedown.dev/shakedown/standin/state"
	"shakedown.dev/shakedown/standin/state/statetest"
)

func open(t *testing.T, dir string) *state.Local {
	t.Helper()
	store, err := state.OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestLocal(t *testing.T) { statetest.Run(t, open(t, t.TempDir())) }

func TestLocalSurvivesBeingKilledInAWrite(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	for _, key := range []string{"a", "b"} {
		if err := store.Put(t.Context(), state.Item{Key: key, Value: []byte(key)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "standin.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"k":"c","v":`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	items, err := open(t, dir).List(t.Context(), "")
	if err != nil || len(items) != 1 || items[0].Key != "b" {
		t.Errorf("after the restart: %v and %v, want b alone", items, err)
	}
}

func TestLocalForgetsWhatExpiredWhenItIsOpened(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	if err := store.Put(t.Context(), state.Item{Key: "a", Expires: time.Now().Add(-time.Minute)}); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	info, err := os.Stat(filepath.Join(dir, "standin.jsonl"))
	if err != nil || info.Size() != 0 {
		t.Errorf("journal is %d bytes long (%v), want none", info.Size(), err)
	}
	if perm := info.Mode().Perm(); perm != 0o600 {
		t.Errorf("journal has mode %o, it holds private keys", perm)
	}
}
