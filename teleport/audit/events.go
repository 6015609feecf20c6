package audit

import (
	"context"
	"iter"
	"time"

	"github.com/gravitational/teleport/api/client/proto"
	"github.com/gravitational/teleport/api/types"
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
	Type  string
	Code  string // T2000I and the like
	Time  time.Time
	Index int64
	// Session is the session's id, where there is one. A node that records has it in $SSH_SESSION_ID too; where
	// the proxy records it has one of its own, and Remote is what client and log both know.
	Session string
	User    string
	Login   string
	Remote  string            // the client's address as the server saw it, where it says so
	Server  string            // UUID of the node; UUID.CLUSTER where a proxy recorded
	Host    string            // its host name, where it says so
	By      string            // UUID of the proxy that recorded, if one did
	Kind    string            // "ssh" or "kube", for sessions that say so
	Raw     events.AuditEvent // the whole of it
}

// pageSize is what is asked for at once; Teleport's own limit is 10 000 events and 1 MiB.
const pageSize = 500

// ascending is what servers take for oldest first: they read the number as types.EventOrder, which counts the other
// way round than the enumeration of the message (seen in 13.0.0-dev, whose own client sends the same).
const ascending = proto.Order(types.EventOrderAscending)

// Events gives the log's entries of the types from a time up to another, oldest first, page after page. The
// iteration ends with the first error. A page that arrives broken is asked for again; entries are never given twice.
func (l *Log) Events(ctx context.Context, from, to time.Time, kinds ...string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		key := ""
		for {
			page, err := l.page(ctx, from, to, kinds, key)
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
				e := read(raw)
				// A log in files is searched by whole days.
				if l.own(e) || e.Time.Before(from) || !e.Time.Before(to) {
					continue
				}
				if !yield(e, nil) {
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

func (l *Log) page(ctx context.Context, from, to time.Time, kinds []string, key string) (*proto.Events, error) {
	var page *proto.Events
	err := l.call(ctx, "search audit events", func(ctx context.Context) (err error) {
		page, err = l.auth.GetEvents(ctx, &proto.GetEventsRequest{
			Namespace: "default", StartDate: from.UTC(), EndDate: to.UTC(), EventTypes: kinds,
			Limit: pageSize, StartKey: key, Order: ascending,
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
	server, conn := metadataOf(raw)
	e.By, e.Remote, e.Host = server.ForwardedBy, conn.RemoteAddr, server.ServerHostname
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

func metadataOf(raw events.AuditEvent) (events.ServerMetadata, events.ConnectionMetadata) {
	switch v := raw.(type) {
	case *events.SessionStart:
		return v.ServerMetadata, v.ConnectionMetadata
	case *events.SessionEnd:
		return v.ServerMetadata, v.ConnectionMetadata
	case *events.SessionLeave:
		return v.ServerMetadata, v.ConnectionMetadata
	case *events.SessionReject:
		return v.ServerMetadata, v.ConnectionMetadata
	case *events.ClientDisconnect:
		return v.ServerMetadata, v.ConnectionMetadata
	}
	return events.ServerMetadata{}, events.ConnectionMetadata{}
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
