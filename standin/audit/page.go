package audit

import (
	"cmp"
	"slices"

	"github.com/gravitational/teleport/api/types/events"
)

// page sorts what was found, goes to the start key and reads up to the limit of
// events or bytes. The key it returns is that of the last event, if more follow.
func page[T any](found []T, q Query, key func(T) string, read func(T) (events.AuditEvent, error)) ([]events.AuditEvent, string, error) {
	slices.SortStableFunc(found, func(a, b T) int {
		if q.Descending {
			a, b = b, a
		}
		return cmp.Compare(key(a), key(b))
	})
	if q.StartKey != "" {
		found = slices.DeleteFunc(found, func(t T) bool {
			if q.Descending {
				return key(t) >= q.StartKey
			}
			return key(t) <= q.StartKey
		})
	}
	var out []events.AuditEvent
	size := 0
	for i, t := range found {
		event, err := read(t)
		if err != nil {
			return nil, "", err
		}
		out = append(out, event)
		size += event.Size()
		if full := len(out) >= q.Limit || size >= MaxResponse; full && i+1 < len(found) {
			return out, key(t), nil
		}
	}
	return out, "", nil
}
