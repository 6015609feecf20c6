package auth

import (
	"testing"
	"time"

	"github.com/gravitational/teleport/api/types"
)

// BenchmarkSession is what one recorded session asks of the auth: a tracker, six
// events, the end of the tracker and a recording.
func BenchmarkSession(b *testing.B) {
	r := newRig(b, nil)
	node := r.node()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			sid := newSID()
			tracker, err := types.NewSessionTracker(types.SessionTrackerSpecV1{SessionID: sid, Kind: "ssh", Expires: time.Now().Add(time.Hour).UTC()})
			if err != nil {
				b.Fatal(err)
			}
			if err := node.CreateTracker(b.Context(), tracker); err != nil {
				b.Fatal(err)
			}
			for range 5 {
				if err := node.Emit(b.Context(), startEvent(sid)); err != nil {
					b.Fatal(err)
				}
			}
			if err := node.SetTrackerState(b.Context(), sid, types.SessionState_SessionStateTerminated); err != nil {
				b.Fatal(err)
			}
			if err := node.UploadRecording(b.Context(), sid, recording(b, sid, 60)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
