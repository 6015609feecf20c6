package e2e

import (
	"testing"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/recordings"
	"shakedown.dev/shakedown/scenarios"
)

// TestBehaviours: what is more than a terminal that types, against the stand-in, with a shell of its own and the
// login's real one.
func TestBehaviours(t *testing.T) {
	const size = 300_000
	for _, shell := range []string{"echo", ""} {
		t.Run("shell "+shell, func(t *testing.T) {
			t.Parallel()
			l := start(t, "node", "STANDIN_SHELL="+shell)
			p := plan(0, 2*time.Second, 100*time.Millisecond)
			terminal := p.Streams[0].Mix[0].Session
			p.Streams = nil
			for name, change := range map[string]func(*scenarios.Session){
				"up":   func(s *scenarios.Session) { s.Behaviour, s.Direction, s.Size = "transfer", "up", size },
				"down": func(s *scenarios.Session) { s.Behaviour, s.Direction, s.Size = "transfer", "down", size },
				"slow": func(s *scenarios.Session) {
					s.Behaviour, s.Direction, s.Size, s.Rate = "transfer", "down", size, size/2
				},
				"channels": func(s *scenarios.Session) { s.Behaviour, s.Channels = "channels", 3 },
			} {
				session := terminal
				if change(&session); name != "channels" {
					session.Length = scenarios.Distribution{}
				}
				p.Streams = append(p.Streams, scenarios.StreamPlan{
					Stream: scenarios.Stream{
						Name: name, Mix: []scenarios.Weighted{{Weight: 1, Session: session}},
						Arrival: scenarios.Arrival{Closed: &scenarios.Closed{Held: 2, Think: scenarios.Always(time.Hour)}},
					},
					Seed: uint64(len(p.Streams) + 1),
				})
			}
			events, summary := run(t, l, p, "node", 5*time.Second, 20*time.Second)
			checkBehaviours(t, events, summary, size)
		})
	}
}

func checkBehaviours(t *testing.T, events []history.Event, summary recordings.Summary, size int64) {
	t.Helper()
	n := map[string]int{}
	for s := range of[history.Session](events) {
		n[s.Stream]++
		if s.Class != history.Clean {
			t.Errorf("%s: %s %s %s", s.ID, s.Class, s.Cut, s.Reason)
			continue
		}
		switch took := s.End - s.Open; s.Stream {
		case "up":
			if s.BytesSent != size || s.BytesReceived < 64 {
				t.Errorf("%s: %d bytes sent, %d received", s.ID, s.BytesSent, s.BytesReceived)
			}
		case "down", "slow":
			if s.BytesReceived != size || s.Stream == "slow" && took < 1800*time.Millisecond {
				t.Errorf("%s: %d bytes in %s", s.ID, s.BytesReceived, took)
			}
		case "channels":
			if s.Lines.Acked < 10 || s.Lines.Acked != s.Lines.Sent || s.ServerSession == "" {
				t.Errorf("%s: %+v, server session %q", s.ID, s.Lines, s.ServerSession)
			}
		}
	}
	if n["up"] != 2 || n["down"] != 2 || n["slow"] != 2 || n["channels"] != 6 {
		t.Errorf("sessions by stream: %v", n)
	}
	// Each channel is a session with a recording of its own.
	if summary.Expected != 6 || summary.Classes[history.RecComplete] != 6 {
		t.Errorf("recordings %+v", summary)
	}
}
