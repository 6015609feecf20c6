// Package audit keeps the audit log: JSON lines on local disk where the real
// program writes them, or items in the shared store for several auths.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/gravitational/teleport/api/types/events"
)

// Event types and codes (lib/events/api.go and codes.go of 13.0.0-dev).
const (
	SessionStart, SessionStartCode                     = "session.start", "T2000I"
	SessionJoin, SessionJoinCode                       = "session.join", "T2001I"
	TerminalResize, TerminalResizeCode                 = "resize", "T2002I"
	SessionLeave, SessionLeaveCode                     = "session.leave", "T2003I"
	SessionEnd, SessionEndCode                         = "session.end", "T2004I"
	SessionUpload, SessionUploadCode                   = "session.upload", "T2005I"
	SessionData, SessionDataCode                       = "session.data", "T2006I"
	SessionRejected, SessionRejectedCode               = "session.rejected", "T1006W"
	SessionRecordingAccess, SessionRecordingAccessCode = "session.recording.access", "T2012I"
	UserCreate, UserCreateCode                         = "user.create", "T1002I"
	UserDelete, UserDeleteCode                         = "user.delete", "T1004I"
	RoleCreate, RoleCreateCode                         = "role.created", "T9000I"
	RoleDelete, RoleDeleteCode                         = "role.deleted", "T9001I"
	CertCreate, CertCreateCode                         = "cert.create", "TC000I"
	InstanceJoin, InstanceJoinCode                     = "instance.join", "TJ001I"
)

// UploadIndex is the index of session.upload: after all others.
const UploadIndex = 1<<31 - 1

// Query asks for events between two times (From included, To not).
type Query struct {
	From, To   time.Time
	Types      []string
	SessionID  string
	Limit      int
	Descending bool
	StartKey   string
}

// Log stores and finds audit events.
type Log interface {
	Append(ctx context.Context, event events.AuditEvent) error
	// Search returns at most q.Limit events by time, and the key to go on with,
	// which is empty at the end.
	Search(ctx context.Context, q Query) ([]events.AuditEvent, string, error)
	Close() error
}

// MaxResponse is how many bytes of events one answer holds at most.
const MaxResponse = 1024 * 1024

// Complete gives an event the fields that every event has.
func Complete(event events.AuditEvent, cluster string) error {
	if event.GetType() == "" || event.GetCode() == "" {
		return fmt.Errorf("audit event %T has no type or no code", event)
	}
	if event.GetID() == "" {
		event.SetID(uuid.NewString())
	}
	if event.GetTime().IsZero() {
		event.SetTime(time.Now().UTC().Round(time.Millisecond))
	}
	if event.GetClusterName() == "" {
		event.SetClusterName(cluster)
	}
	return nil
}

// decode reads an event from its JSON line.
func decode(line []byte) (events.AuditEvent, error) {
	var head struct {
		Type string `json:"event"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, fmt.Errorf("decode audit event: %w", err)
	}
	event := blank(head.Type)
	if err := json.Unmarshal(line, event); err != nil {
		return nil, fmt.Errorf("decode %s event: %w", head.Type, err)
	}
	if unknown, ok := event.(*events.Unknown); ok {
		unknown.UnknownType, unknown.UnknownCode, unknown.Data = head.Type, unknown.Code, string(line)
	}
	return event, nil
}

// blank returns an empty event of the Go type that belongs to kind.
func blank(kind string) events.AuditEvent {
	switch kind {
	case SessionStart:
		return &events.SessionStart{}
	case SessionJoin:
		return &events.SessionJoin{}
	case SessionLeave:
		return &events.SessionLeave{}
	case SessionEnd:
		return &events.SessionEnd{}
	case SessionUpload:
		return &events.SessionUpload{}
	case SessionData:
		return &events.SessionData{}
	case SessionRejected:
		return &events.SessionReject{}
	case SessionRecordingAccess:
		return &events.SessionRecordingAccess{}
	case TerminalResize:
		return &events.Resize{}
	case "print":
		return &events.SessionPrint{}
	case "exec":
		return &events.Exec{}
	case "kube.request":
		return &events.KubeRequest{}
	case "client.disconnect":
		return &events.ClientDisconnect{}
	case "subsystem":
		return &events.Subsystem{}
	case "port":
		return &events.PortForward{}
	case "scp":
		return &events.SCP{}
	case "sftp":
		return &events.SFTP{}
	case "auth":
		return &events.AuthAttempt{}
	case "session.connect":
		return &events.SessionConnect{}
	case UserCreate:
		return &events.UserCreate{}
	case UserDelete:
		return &events.UserDelete{}
	case RoleCreate:
		return &events.RoleCreate{}
	case RoleDelete:
		return &events.RoleDelete{}
	case CertCreate:
		return &events.CertificateCreate{}
	}
	return &events.Unknown{}
}
