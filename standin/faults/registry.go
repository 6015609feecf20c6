package faults

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Entry is one line of the private record: what the stand-in really did wrong.
type Entry struct {
	Time    time.Time `json:"time"`
	Fault   Name      `json:"fault"`
	Session string    `json:"session,omitempty"` // audit session ID, or the key given to Active
	Detail  string    `json:"detail,omitempty"`
}

// Registry holds the rules in force and the record. It is safe for concurrent
// use; a nil Registry has no faults, so callers need not check.
type Registry struct {
	mu      sync.Mutex
	rules   map[Name]*state
	entries []Entry
	sink    func(Entry)
	leaked  [][]byte
}

type state struct {
	rule    Rule
	seen    int
	struck  int
	decided map[string]bool
}

// New returns a registry with rules in force. Each entry of the record is also
// handed to sink, which may be nil.
func New(sink func(Entry), rules ...Rule) *Registry {
	r := &Registry{rules: map[Name]*state{}, sink: sink}
	for _, rule := range rules {
		r.Set(rule)
	}
	return r
}

// Set puts rule in force, in place of an earlier one of the same name.
func (r *Registry) Set(rule Rule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules[rule.Name] = &state{rule: rule, decided: map[string]bool{}}
}

// Clear ends the fault called name.
func (r *Registry) Clear(name Name) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.rules, name)
}

// Rules lists the rules in force, by name.
func (r *Registry) Rules() []Rule {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Rule{}
	for _, name := range slices.Sorted(maps.Keys(r.rules)) {
		out = append(out, r.rules[name].rule)
	}
	return out
}

// Active says whether the fault strikes the session called key. The answer for
// a key stays the same until Forget or Set; every n-th new key is struck. With
// an empty key it says whether the fault is in force at all, and counts nothing.
func (r *Registry) Active(name Name, key string) (Rule, bool) {
	if r == nil {
		return Rule{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.rules[name]
	if !ok {
		return Rule{}, false
	}
	if key == "" {
		return s.rule, true
	}
	return s.rule, s.decide(key)
}

func (s *state) decide(key string) bool {
	if hit, ok := s.decided[key]; ok {
		return hit
	}
	s.seen++
	hit := s.rule.Every <= 1 || s.seen%s.rule.Every == 0
	if hit && s.rule.Limit > 0 && s.struck >= s.rule.Limit {
		hit = false
	}
	if hit {
		s.struck++
	}
	s.decided[key] = hit
	return hit
}

// Forget drops what was decided for key; call it when the session is over.
func (r *Registry) Forget(key string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.rules {
		delete(s.decided, key)
	}
}

// Record notes that a fault was really done. Call it when it happened, not when
// it was decided.
func (r *Registry) Record(name Name, session, detail string) {
	if r == nil {
		return
	}
	e := Entry{Time: time.Now().UTC(), Fault: name, Session: session, Detail: detail}
	r.mu.Lock()
	r.entries = append(r.entries, e)
	r.mu.Unlock()
	if r.sink != nil {
		r.sink(e)
	}
}

// Entries returns a copy of the record so far.
func (r *Registry) Entries() []Entry {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.entries)
}
