package node

import (
	"testing"
	"time"

	"k8s.io/kubernetes/cmd/kubelet/app/options"
)

func TestKubeletBeatsOftenerThanTheControllerWaits(t *testing.T) {
	for _, grace := range []time.Duration{0, 3 * time.Second, 6 * time.Second, 16 * time.Second, 40 * time.Second, 5 * time.Minute} {
		c, err := options.NewKubeletConfiguration()
		if err != nil {
			t.Fatal(err)
		}
		beat(c, grace)
		if grace == 0 {
			grace = 40 * time.Second // Kubernetes' default
		}
		renewal := time.Duration(c.NodeLeaseDurationSeconds) * time.Second / 4
		if renewal > grace/2 || c.NodeStatusUpdateFrequency.Duration > grace/2 {
			t.Errorf("grace %v: lease renewed every %v, status every %v: the node would be given up", grace, renewal, c.NodeStatusUpdateFrequency.Duration)
		}
	}
}
