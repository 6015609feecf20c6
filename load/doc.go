// Package load puts synthetic sessions on a Teleport cluster and keeps the ledger of them: one [history.Session]
// for each that was due, in exactly one class.
//
// Sessions arrive when the plan says, never when a worker is free: nothing queues, so a slow system cannot slow
// down what is asked of it. What could not be begun in time is written down as the generator's own failure.
//
// One goroutine of ours reads each session; everything that happens at a time (the next line, a keep-alive, the
// end) waits in one heap that all sessions share, see package timers. The rejected alternative, a goroutine and
// two timers per session, costs 4 KiB more for each of ten thousand.
//
// How a session is judged:
//   - The server has acknowledged a line when it gave it back whole, as checked by package lines.
//   - A path is dead when nothing at all was heard for two keep-alive intervals, although it was asked after
//     one: dropped, by keep-alive.
//   - Stalled is what answers keep-alives, or answers again, but left a line or the end of input unanswered for
//     longer than the plan's validity.stall.
//   - An exit status before the script's end is the server ending the session: dropped, by server message.
package load
