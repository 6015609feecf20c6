package audit

import (
	"context"
	"iter"
	"time"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types/events"
)

// Types of audit events, as the log names them.
const (
	SessionStart  = "session.start"
	SessionJoin   = "session.join"
	SessionLeave  = "session.leave"
	SessionEnd    = "session.end"
	SessionUpload = "session.upload"
	SessionAccess = "session.recording.access"
	Exec          = "exec"
	Rejected      = "session.rejected"
	Disconnect    = "client.disconnect"
)

// SessionTypes are the events from which the fate of a session and its recording can be told.
func SessionTypes() []string {
	return []string{SessionStart, SessionJoin, SessionLeave, SessionEnd, SessionUpload, Rejected, Disconnect}
}

// Event is one entry of the audit log.
type Event struct {
	Type    string
	Code    string // T2000I and the like
	Time    time.Time
	Index   int64
	Session string // id of the session, where there is one
	User    string
	Login   string
	Server  string            // UUID of the host that wrote it
	Kind    string            // "ssh" or "kube", for sessions that say so
	Raw     events.AuditEvent // the whole of it
}

// pageSize is what is asked for at once; Teleport's own limit is 10 000 events and 1 MiB.
const pageSize = 500

// Events gives the log's entries of the types from a time up to another, oldest first, page after page. The
// iteration ends with the first error. A page that arrives broken is asked for again; entries are never given twice.
func (l *Log) Events(ctx context.Context, from, to time.Time, types ...string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		key := ""
		for {
			page, err := l.page(ctx, from, to, types, key)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, item := range page.Items {
				raw, err := events.FromOneOf(*item)
				if err != nil {
					// An event newer than our messages: nothing that is asked for here.
					continue
				}
				if e := read(raw); !l.own(e) && !yield(e, nil) {
					return
				}
			}
			// A full page may be the last: the key tells.
			if key = page.LastKey; key == "" {
				return
			}
		}
	}
}

func (l *Log) page(ctx context.Context, from, to time.Time, types []string, key string) (*proto.Events, error) {
	var page *proto.Events
	err := l.call(ctx, "search audit events", func(ctx context.Context) (err error) {
		page, err = l.auth.GetEvents(ctx, &proto.GetEventsRequest{
			Namespace: "default", StartDate: from.UTC(), EndDate: to.UTC(), EventTypes: types,
			Limit: pageSize, StartKey: key, Order: proto.Order_ASCENDING,
		})
		return err
	})
	return page, err
}

// own tells whether the event only says that we looked at a recording.
func (l *Log) own(e Event) bool { return e.Type == SessionAccess && e.User == l.user }

// read takes from an event what callers ask for, whatever its type.
func read(raw events.AuditEvent) Event {
	e := Event{Type: raw.GetType(), Code: raw.GetCode(), Time: raw.GetTime(), Index: raw.GetIndex(), Raw: raw}
	if s, ok := raw.(interface{ GetSessionID() string }); ok {
		e.Session = s.GetSessionID()
	}
	if s, ok := raw.(interface{ GetServerID() string }); ok {
		e.Server = s.GetServerID()
	}
	user := userOf(raw)
	e.User, e.Login = user.User, user.Login
	e.Kind = kindOf(raw)
	return e
}

func userOf(raw events.AuditEvent) events.UserMetadata {
	switch v := raw.(type) {
	case *events.SessionStart:
		return v.UserMetadata
	case *events.SessionEnd:
		return v.UserMetadata
	case *events.SessionLeave:
		return v.UserMetadata
	case *events.SessionJoin:
		return v.UserMetadata
	case *events.SessionReject:
		return v.UserMetadata
	case *events.ClientDisconnect:
		return v.UserMetadata
	case *events.SessionRecordingAccess:
		return v.UserMetadata
	case *events.Exec:
		return v.UserMetadata
	}
	return events.UserMetadata{}
}

func kindOf(raw events.AuditEvent) string {
	var kube events.KubernetesClusterMetadata
	switch v := raw.(type) {
	case *events.SessionStart:
		kube = v.KubernetesClusterMetadata
	case *events.SessionEnd:
		kube = v.KubernetesClusterMetadata
	default:
		return ""
	}
	if kube.KubernetesCluster != "" {
		return "kube"
	}
	return "ssh"
}
