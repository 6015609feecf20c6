package load

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
	"shakedown.dev/shakedown/teleport/identity"
	tssh "shakedown.dev/shakedown/teleport/ssh"
	"shakedown.dev/shakedown/teleport/ssh/sshtest"
)

// terminals answers a node's channels: the mark first, then each line; Control-D ends it. The channel that is told
// "mute" in mutes says nothing more after its mark, and closes nothing.
func terminals(cut func(n int) string) func(n int, ch ssh.Channel) {
	return func(n int, ch ssh.Channel) {
		buf := make([]byte, 4096)
		for first := true; ; first = false {
			k, err := ch.Read(buf)
			if err != nil {
				return
			}
			text := string(buf[:k])
			switch {
			case first:
				_, _ = ch.Write([]byte(markBegin + "sid-" + string(rune('a'+n)) + markEnd + "\r\n"))
			case text == endOfInput:
				_, _ = ch.SendRequest("exit-status", false, []byte{0, 0, 0, 0})
				ch.Close()
				return
			case cut(n) == "cut":
				ch.Close()
				return
			default:
				_, _ = ch.Write(bytes.ReplaceAll(buf[:k], []byte("\n"), []byte("\r\n")))
			}
		}
	}
}

// TestChannels: sessions on one connection are sessions of their own, in the ledger and to the server.
func TestChannels(t *testing.T) {
	tests := []struct {
		because string
		cut     func(n int) string
		drop    bool // the connection
		classes map[history.Class]int
		cuts    string
	}{
		{"all goes well", func(int) string { return "" }, false, map[history.Class]int{history.Clean: 6}, ""},
		{"one channel is closed", func(n int) string { return map[int]string{2: "cut"}[n] }, false, map[history.Class]int{history.Clean: 5, history.Dropped: 1}, "channel-closed"},
		{"the connections are cut", func(int) string { return "" }, true, map[history.Class]int{history.Dropped: 6}, "reset"},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			t.Parallel()
			a, err := sshtest.NewAuthority("lab")
			if err != nil {
				t.Fatal(err)
			}
			server, err := sshtest.Start(a)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			server.Shell = terminals(tt.cut)
			id, _, err := a.Identity("load-0", time.Now().Add(time.Hour), "root")
			if err != nil {
				t.Fatal(err)
			}
			p := plan(scenarios.Session{
				Behaviour: "channels", Channels: 3, Length: scenarios.Always(800 * time.Millisecond), Pace: scenarios.Always(50 * time.Millisecond),
			}, scenarios.Arrival{Closed: &scenarios.Closed{Held: 2, Think: scenarios.Always(time.Hour)}})
			targets := someTargets()
			for i := range targets.proxies {
				targets.proxies[i].SSH = tssh.Proxy{Address: server.Address, Name: "localhost"}
			}
			targets.agents = []history.Agent{{UUID: sshtest.NodeID}}
			m := newMemory()
			e, err := New(Config{Plan: p, History: m, Targets: targets, Users: []*identity.Identity{id}})
			if err != nil {
				t.Fatal(err)
			}
			e.Start(t.Context())
			if tt.drop {
				waitFor(t, func() bool { return e.Stats().Opened == 6 })
				server.DropClients(true)
			}
			waitFor(t, func() bool { return e.Stats().Ended == 6 })
			stats := e.Stop(t.Context())
			if stats.Due != 6 || stats.Started != 6 || stats.Held != 0 {
				t.Errorf("%+v", stats)
			}
			checkChannels(t, payloads[history.Session](m), tt.classes, tt.cuts)
		})
	}
}

func checkChannels(t *testing.T, all []history.Session, classes map[history.Class]int, cuts string) {
	t.Helper()
	got, ids, tokens, from, proxies := map[history.Class]int{}, map[string]bool{}, map[string]bool{}, map[string]int{}, map[string]string{}
	for _, s := range all {
		got[s.Class]++
		ids[s.ID], ids[s.ServerSession], tokens[s.Lines.Token] = true, true, true
		from[s.Local]++
		if on, _, _ := strings.Cut(s.ID, "#"); proxies[on] == "" {
			proxies[on] = s.Proxy.UID
		} else if proxies[on] != s.Proxy.UID {
			t.Errorf("%s went through another pod than the others of its connection", s.ID)
		}
		if s.Class == history.Dropped && string(s.Cut) != cuts {
			t.Errorf("%s: %s (%s), want %s", s.ID, s.Cut, s.Reason, cuts)
		}
		if s.Class == history.Clean && (s.Lines.Acked < 10 || s.Lines.Bad > 0 || !s.Recorded) {
			t.Errorf("%s: %+v", s.ID, s.Lines)
		}
	}
	if len(all) != 6 || len(ids) != 12 || len(tokens) != 6 || len(from) != 2 {
		t.Errorf("%d sessions with %d ids and %d tokens on %d connections", len(all), len(ids), len(tokens), len(from))
	}
	for class, n := range classes {
		if got[class] != n {
			t.Errorf("classes %v, want %v", got, classes)
		}
	}
}

// waitFor waits for the thing itself, within reason.
func waitFor(t *testing.T, what func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !what(); {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to that")
		}
		time.Sleep(5 * time.Millisecond)
	}
}
