package existing

import (
	"context"
	"strings"
	"testing"

	"shakedown.dev/shakedown/clusters"
)

func TestGatewayIsOpenedFirst(t *testing.T) {
	f := newFakeAPI(t)
	f.add("pods", pod("proxy", "10.9.0.7"))
	p := &Provider{Kubeconfig: f.kubeconfig(t, ""), Context: "theirs", Gateway: "shakedown:1"}
	c, err := p.Up(t.Context(), clusters.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Down(context.Background(), "") })
	if _, err := c.DialContext(t.Context(), "tcp", "10.9.0.7:3023"); err == nil || !strings.Contains(err.Error(), "not open") {
		t.Errorf("%v, want that the gateway is not open: another way would be another measurement", err)
	}
	if n := f.forwards.Load(); n != 0 {
		t.Errorf("%d port-forwards", n)
	}
	if way := c.(*Cluster).Reach(); way != "gateway" {
		t.Errorf("the way is %s", way)
	}
}

func TestAClusterWithoutAGatewayStartsNone(t *testing.T) {
	f := newFakeAPI(t)
	if err := up(t, f, "").OpenGateway(t.Context(), "teleport", nil, nil); err != nil {
		t.Error(err) // the fake API knows no Jobs
	}
}
