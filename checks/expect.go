package checks

import "shakedown.dev/shakedown/checks/gates"

// Expect is what a run was to do and what is expected of it: the part of a plan that judging needs.
type Expect struct {
	Gates []gates.Gate
	Names gates.Names
	// Missing says what it means that a Prometheus has no data, by query: inconclusive or zero.
	Missing map[string]string
	// Entries are the timeline entries of the plan that act, in order.
	Entries []PlannedEntry
	// Steps are the streams of the open model whose rate changes.
	Steps []PlannedSteps
}

// PlannedEntry is a timeline entry that breaks or changes something.
type PlannedEntry struct {
	Name    string // timeline entry
	Action  string // podDelete, helmUpgrade, …
	Rollout bool   // changes by a rollout; else by a fault
	// OrElse says what it means that its condition is missed: fail, skip or inconclusive.
	OrElse string
}
