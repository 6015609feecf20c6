package run

import (
	"strings"
	"testing"
	"time"

	coordv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestClaim(t *testing.T) {
	held := func(by string, ago time.Duration) *coordv1.Lease {
		l := (&claim{run: by}).lease(metav1.NewMicroTime(time.Now().Add(-ago)))
		l.ResourceVersion = "1"
		return l
	}
	for _, row := range []struct {
		why  string
		have *coordv1.Lease
		says string // empty: it is taken
	}{
		{"nobody has it", nil, ""},
		{"a run that lives has it", held("other", time.Second), "run other is using it"},
		{"a run that was killed had it", held("other", claimTerm+time.Second), ""},
		{"it is ours already", held("ours", time.Second), ""},
	} {
		t.Run(row.why, func(t *testing.T) {
			client := fake.NewClientset()
			if row.have != nil {
				client = fake.NewClientset(row.have)
			}
			c := &claim{client: client, run: "ours"}
			err := c.take(t.Context())
			if row.says != "" {
				if err == nil || !strings.Contains(err.Error(), row.says) {
					t.Errorf("%v, want that it says %q", err, row.says)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			c.free()
			l, err := client.CoordinationV1().Leases(claimNS).Get(t.Context(), claimName, metav1.GetOptions{})
			if row.says == "" && err == nil {
				t.Error("it is not free afterwards")
			}
			if row.says != "" && (err != nil || holder(l) != "other") {
				t.Errorf("the other's claim is gone: %v", err)
			}
		})
	}
}
