package reports

import (
	"testing"

	"shakedown.dev/shakedown/checks"
)

// TestCostWords: what may have been lost is not called lost, and not "more" where nothing was.
func TestCostWords(t *testing.T) {
	for _, tt := range []struct {
		cost checks.Cost
		want string
	}{
		{checks.Cost{}, "nothing lost"},
		{checks.Cost{Dropped: 3, Recordings: 2, Missing: 1}, "3 dropped, 1 recordings missing, 1 recordings damaged"},
		{checks.Cost{Refused: 1, Shared: 8}, "1 refused, perhaps 8 more sessions"},
		{checks.Cost{Shared: 8, SharedRecordings: 2}, "nothing for certain, perhaps 8 sessions, perhaps 2 recordings"},
	} {
		if got := costWords(tt.cost); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.cost, got, tt.want)
		}
	}
}
