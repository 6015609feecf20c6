// Package faults is the registry of planted faults: what the stand-in is told
// to do wrong, to which sessions, and the private record of what it really
// did, so that a test can compare a harness's count with the truth.
package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Name is the name of a planted fault.
type Name string

// The planted faults. Each is looked up in exactly one place of the program.
const (
	DropSilently       Name = "drop-silently"       // a session's transport is cut without any message
	HalfOpen           Name = "half-open"           // the transport stays open, one direction is dead
	Stall              Name = "stall"               // a session stops answering for Rule.For
	LoseRecording      Name = "lose-recording"      // a finished recording is thrown away
	TruncateRecording  Name = "truncate-recording"  // the tail of a recording is missing
	GapRecording       Name = "gap-recording"       // events inside a recording are missing
	DuplicateRecording Name = "duplicate-recording" // events of a recording are there twice
	ForgetEndEvent     Name = "forget-end-event"    // the auth never stores session.end
	LateUpload         Name = "late-upload"         // a recording reaches the auth Rule.For late
	ReadyWhileDead     Name = "ready-while-dead"    // /readyz says 200 while connections are refused
	UnreadyWhileAlive  Name = "unready-while-alive" // /readyz says 503 while everything works
	NeverDrain         Name = "never-drain"         // a graceful stop never ends
	SlowAuth           Name = "slow-auth"           // every auth call takes Rule.For longer
	RefuseShare        Name = "refuse-share"        // new sessions are refused
	StaleNode          Name = "stale-node"          // a node that is gone stays listed
	LeakMemory         Name = "leak-memory"         // each session leaves Rule.Bytes behind
	WrongHostKey       Name = "wrong-host-key"      // the host shows a key that no authority signed
)

// All lists every planted fault by name.
func All() []Name {
	return []Name{
		DropSilently, HalfOpen, Stall, LoseRecording, TruncateRecording, GapRecording,
		DuplicateRecording, ForgetEndEvent, LateUpload, ReadyWhileDead, UnreadyWhileAlive,
		NeverDrain, SlowAuth, RefuseShare, StaleNode, LeakMemory, WrongHostKey,
	}
}

// ParseName returns the fault called s, or an error that lists those there are.
func ParseName(s string) (Name, error) {
	if slices.Contains(All(), Name(s)) {
		return Name(s), nil
	}
	names := make([]string, 0, len(All()))
	for _, n := range All() {
		names = append(names, string(n))
	}
	return "", fmt.Errorf("unknown fault %q, known are %s", s, strings.Join(names, ", "))
}

// Rule says when a fault strikes and how hard.
type Rule struct {
	Name  Name          `json:"name"`
	Every int           `json:"every,omitempty"` // every n-th session; 0 and 1: all of them
	After time.Duration `json:"after,omitempty"` // strike this long after the session began
	For   time.Duration `json:"for,omitempty"`   // how long it lasts or delays; 0: see Rule.Duration
	Bytes int           `json:"bytes,omitempty"` // leak-memory: bytes left behind per session
	Limit int           `json:"limit,omitempty"` // strike at most this often; 0: no limit
}

// Duration is For, or standard where the rule does not say.
func (r Rule) Duration(standard time.Duration) time.Duration {
	if r.For > 0 {
		return r.For
	}
	return standard
}
