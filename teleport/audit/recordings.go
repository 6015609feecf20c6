package audit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types/events"
)

// Playback is a recording as the auth server plays it back.
type Playback struct {
	Output     []byte     // what the terminal showed
	Events     int        // events in the recording, each once
	Started    bool       // it has its session.start
	Ended      bool       // it has its session.end
	Missing    [][2]int64 // ranges of event indexes that are not there: first and last of each
	Duplicates int        // events that came more than once, as when a stream was resumed
}

// Play reads the recording of a session. The error is ErrNotFound while it is not uploaded. Each call leaves a
// session.recording.access event in the log, which Events leaves out.
func (l *Log) Play(ctx context.Context, session string) (Playback, error) {
	var p Playback
	err := l.call(ctx, "play session "+session, func(ctx context.Context) error {
		p = Playback{}
		// The stream must end with this call, also when it is left early.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := l.auth.StreamSessionEvents(ctx, &proto.StreamSessionEventsRequest{SessionID: session})
		if err != nil {
			return err
		}
		return p.take(stream)
	})
	return p, err
}

func (p *Playback) take(stream proto.AuthService_StreamSessionEventsClient) error {
	next := int64(0)
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		raw, err := events.FromOneOf(*item)
		if err != nil {
			continue
		}
		next = p.add(raw, next)
	}
}

// add takes one event and returns the index expected next. Recordings are in the order of indexes; one that
// comes again was sent again.
func (p *Playback) add(raw events.AuditEvent, next int64) int64 {
	at := raw.GetIndex()
	if at < next && p.Events > 0 {
		p.Duplicates++
		return next
	}
	if at > next && p.Events > 0 {
		p.Missing = append(p.Missing, [2]int64{next, at - 1})
	}
	p.Events++
	switch v := raw.(type) {
	case *events.SessionStart:
		p.Started = true
	case *events.SessionEnd:
		p.Ended = true
	case *events.SessionPrint:
		p.Output = append(p.Output, v.Data...)
	}
	return at + 1
}

// escapes are terminal control sequences: CSI, OSC and two-byte ones (ECMA-48).
var escapes = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])`)

// Lines gives the output as lines of text, without carriage returns and terminal control sequences. A last line
// without its end is given too.
func (p Playback) Lines() []string {
	clean := escapes.ReplaceAll(p.Output, nil)
	var out []string
	for line := range bytes.Lines(clean) {
		out = append(out, string(bytes.TrimRight(bytes.ReplaceAll(line, []byte("\r"), nil), "\n")))
	}
	return out
}
