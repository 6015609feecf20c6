package audit

import (
	"context"
	"slices"
	"strings"

	"github.com/gravitational/teleport/api/types/events"

	"shakedown.dev/shakedown/standin/state"
)

// Shared is the log in a store that all auths share.
type Shared struct{ store state.Store }

// NewShared keeps the log in store. The store stays the caller's to close.
func NewShared(store state.Store) *Shared { return &Shared{store} }

const sharedRoot = "events/"

// Append implements Log.
func (s *Shared) Append(ctx context.Context, event events.AuditEvent) error {
	oneof, err := events.ToOneOf(event)
	if err != nil {
		return err
	}
	value, err := oneof.Marshal()
	if err != nil {
		return err
	}
	sid := ""
	if m, ok := event.(interface{ GetSessionID() string }); ok {
		sid = m.GetSessionID()
	}
	key := sharedRoot + strings.Join([]string{eventKey(event.GetTime(), event.GetID()), event.GetType(), sid}, "|")
	return s.store.Put(ctx, state.Item{Key: key, Value: value})
}

// Search implements Log.
func (s *Shared) Search(ctx context.Context, q Query) ([]events.AuditEvent, string, error) {
	from, to := eventKey(q.From, ""), eventKey(q.To, "")
	items, err := s.store.Range(ctx, sharedRoot+from, sharedRoot+to)
	if err != nil {
		return nil, "", err
	}
	items = slices.DeleteFunc(items, func(i state.Item) bool {
		f := strings.Split(strings.TrimPrefix(i.Key, sharedRoot), "|")
		return len(f) != 3 ||
			len(q.Types) > 0 && !slices.Contains(q.Types, f[1]) || q.SessionID != "" && f[2] != q.SessionID
	})
	key := func(i state.Item) string { return strings.Split(strings.TrimPrefix(i.Key, sharedRoot), "|")[0] }
	return page(items, q, key, func(i state.Item) (events.AuditEvent, error) {
		var oneof events.OneOf
		if err := oneof.Unmarshal(i.Value); err != nil {
			return nil, err
		}
		return events.FromOneOf(oneof)
	})
}

// Close implements Log.
func (s *Shared) Close() error { return nil }
