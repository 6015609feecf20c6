package audit

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gravitational/teleport/api/types"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Tracker is a session that the cluster believes to be going on.
type Tracker struct {
	Session string
	Kind    string // "ssh", "k8s"
	State   string // Pending, Running, Terminated
	Host    string // host name of the node
	User    string
	Created time.Time
	Expires time.Time
}

// Active lists the trackers of sessions. After a session ended cleanly its tracker stays, Terminated, for some
// minutes; one that stays Running without a session is a ghost.
func (l *Log) Active(ctx context.Context) ([]Tracker, error) {
	var out []Tracker
	err := l.call(ctx, "list session trackers", func(ctx context.Context) error {
		out = nil
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := l.auth.GetActiveSessionTrackers(ctx, &emptypb.Empty{})
		if err != nil {
			return err
		}
		for {
			t, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			out = append(out, tracker(t))
		}
	})
	return out, err
}

func tracker(t *types.SessionTrackerV1) Tracker {
	return Tracker{
		Session: t.GetSessionID(), Kind: string(t.GetSessionKind()), State: t.GetState().String(),
		Host: t.GetHostname(), User: t.GetHostUser(), Created: t.GetCreated(), Expires: t.Expiry(),
	}
}
