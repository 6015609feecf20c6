package embedded_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/clusters/embedded"
	"shakedown.dev/shakedown/clusters/embedded/embeddedtest"
)

// launchVar makes this test binary bring up a cluster of that name, say so, and wait to be killed.
const launchVar = "EMBEDDED_TEST_LAUNCH"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubelite" {
		embeddedtest.Main()
	}
	if name := os.Getenv(launchVar); name != "" {
		launchAndWait(name)
	}
	os.Exit(m.Run())
}

func launchAndWait(name string) {
	p := &embedded.Provider{Kubelite: os.Getenv("KUBELITE"), CacheDir: os.Getenv("CACHE")}
	c, err := p.Up(context.Background(), clusters.Spec{Name: name, Nodes: 1})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	facts, err := c.Facts(context.Background())
	fmt.Println(facts.PID, err)
	select {}
}

// fakeKubelite is a name for this test binary under which it is a kubelite.
func fakeKubelite(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubelite")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}
