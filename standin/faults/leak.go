package faults

import "fmt"

// leakBytes is what leak-memory leaves behind when its rule does not say (1 MiB).
const leakBytes = 1 << 20

// Leak leaves memory behind for a session, if leak-memory strikes it. Call it
// once per session.
func (r *Registry) Leak(session string) {
	rule, hit := r.Active(LeakMemory, session)
	if !hit {
		return
	}
	size := rule.Bytes
	if size <= 0 {
		size = leakBytes
	}
	block := make([]byte, size)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1 // a page counts as resident once it is written
	}
	r.mu.Lock()
	r.leaked = append(r.leaked, block)
	r.mu.Unlock()
	r.Record(LeakMemory, session, fmt.Sprintf("%d bytes left behind", size))
}
