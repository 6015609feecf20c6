package checks

import (
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
)

func TestProxyStop(t *testing.T) {
	for _, tt := range []struct {
		says string
		stop history.ProxyStop
		want string
	}{
		{"closed at once after the wait", history.ProxyStop{Grace: 60 * sec, Dropped: 30 * sec, Ended: 30*sec + 100*time.Millisecond, Gone: 31 * sec, Cut: history.CutEOF},
			"its session was cut after 30.0 s (eof), the process ended after 30.1 s with 0, the pod was gone after 31.0 of at most 60 s"},
		{"held to the kill", history.ProxyStop{Grace: 10 * sec, Dropped: 10 * sec, Ended: 10 * sec, Gone: 10 * sec, Exit: 137, Cut: history.CutReset},
			"its session was cut after 10.0 s (reset), the process ended after 10.0 s with 137, the pod was gone after 10.0 of at most 10 s"},
		{"resumed elsewhere", history.ProxyStop{Grace: 60 * sec, Survived: true, Gone: 31 * sec}, "its session outlived it, the pod was gone after 31.0 of at most 60 s"},
		{"not measured", history.ProxyStop{Error: "there is no proxy"}, "could not be measured: there is no proxy"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			v := steady(func(w *world) { w.at(0, "", tt.stop) }).judge(t)
			if v.ProxyStop == nil || v.ProxyStop.String() != tt.want {
				t.Errorf("got %v\nwant %s", v.ProxyStop, tt.want)
			}
		})
	}
	if v := steady().judge(t); v.ProxyStop != nil {
		t.Errorf("nothing was measured, and yet %v", v.ProxyStop)
	}
}
