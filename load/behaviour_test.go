package load

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load/lines"
	"shakedown.dev/shakedown/scenarios"
)

// program is a far side that a test writes: it gets what is typed and says what comes.
type program struct {
	fakeLink
	launched launch
	typed    bytes.Buffer
	answer   func(p *program, text string) // nil: it is silent
	inOrder  func(p *program, text string) // as answer, but before anything else is typed
}

func newProgram(answer func(*program, string)) *program {
	return &program{fakeLink: fakeLink{out: make(chan []byte), in: make(chan typed, 100), gone: make(chan struct{})}, answer: answer}
}

func (p *program) open(_ context.Context, _ route, what launch) (link, error) {
	p.launched = what
	return p, nil
}

func (p *program) Write(text []byte) (int, error) {
	p.typed.Write(text)
	if p.inOrder != nil {
		p.inOrder(p, string(text))
	}
	if p.answer != nil {
		text := string(text)
		go p.answer(p, text)
	}
	return len(text), nil
}

func (p *program) CloseWrite() error { return p.closed() }

// closed tells the program that its input has ended.
func (p *program) closed() error {
	if p.answer != nil {
		go p.answer(p, endOfInput)
	}
	return nil
}

// prompted answers the first thing typed, as a shell does.
func prompted(p *program, text string) bool {
	if !strings.HasPrefix(text, "stty") {
		return false
	}
	p.say([]byte(markBegin + "id" + markEnd + "\r\n"))
	return true
}

// one runs a single session of that kind and gives its row of the ledger.
func one(t *testing.T, s scenarios.Session, p *program, lasting time.Duration) history.Session {
	t.Helper()
	e, m := fakeEngine(plan(s, scenarios.Arrival{Closed: &scenarios.Closed{Held: 1, Think: scenarios.Always(time.Hour)}}), p, kubeTargets())
	e.Start(context.Background())
	time.Sleep(lasting)
	stop(e)
	all := payloads[history.Session](m)
	if len(all) != 1 {
		t.Fatalf("%d sessions", len(all))
	}
	return all[0]
}

func kubeTargets() fixed {
	t := someTargets()
	t.pods = []KubePod{{Pod: history.PodRef{Name: "shell-0", UID: "s0"}}}
	t.pods[0].Target.Pod = "shell-0"
	return t
}

func TestCommand(t *testing.T) {
	tests := []struct {
		because string
		session scenarios.Session
		ends    *ended // by itself, after a second
		onEOF   *ended
		lasting time.Duration
		want    history.Class
		exit    int
	}{
		{"it exits as expected", scenarios.Session{Command: "true"}, &ended{Exited: true}, nil, time.Minute, history.Clean, 0},
		{"another status is expected", scenarios.Session{Command: "false", Exit: 1}, &ended{Exited: true, Status: 1}, nil, time.Minute, history.Clean, 1},
		{"it fails", scenarios.Session{Command: "true"}, &ended{Exited: true, Status: 2}, nil, time.Minute, history.Dropped, 2},
		{"it is cut", scenarios.Session{Command: "true"}, &ended{Cut: history.CutReset}, nil, time.Minute, history.Dropped, -1},
		{"it reads its input until its length is over", scenarios.Session{Command: "cat", Length: scenarios.Always(5 * time.Second)}, nil, &ended{Exited: true}, time.Minute, history.Clean, 0},
		{"it does not end when its length is over", scenarios.Session{Command: "sleep 1h", Length: scenarios.Always(5 * time.Second)}, nil, nil, time.Minute, history.Stalled, -1},
		{"the run ends before it", scenarios.Session{Command: "sleep 1h"}, nil, nil, 10 * time.Second, history.Unfinished, -1},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProgram(func(p *program, text string) {
					if text == endOfInput && tt.onEOF != nil {
						p.over(*tt.onEOF)
					}
				})
				if tt.ends != nil {
					time.AfterFunc(time.Second, func() { p.over(*tt.ends) })
				}
				tt.session.Behaviour = "command"
				s := one(t, tt.session, p, tt.lasting)
				exit := -1
				if s.Exit != nil {
					exit = *s.Exit
				}
				if s.Class != tt.want || exit != tt.exit {
					t.Errorf("got %s, exit %d (%s)", s.Class, exit, s.Reason)
				}
				if p.launched.Command != tt.session.Command || p.launched.Terminal || s.Recorded || s.Open == 0 {
					t.Errorf("launched %+v, recorded %t", p.launched, s.Recorded)
				}
			})
		})
	}
}

func TestScripted(t *testing.T) {
	script := []scenarios.Line{
		{Send: "whoami"}, {Expect: `ro+t\r`}, {Wait: scenarios.Span(3 * time.Second)}, {Send: "date"}, {Expect: "20[0-9]{2}"},
	}
	answers := func(silent string) func(*program, string) {
		return func(p *program, text string) {
			switch {
			case prompted(p, text), strings.TrimSpace(text) == silent:
			case text == "whoami\n":
				p.say([]byte("ro"))
				p.say([]byte("ot\r\n"))
			case text == "date\n":
				p.say([]byte("Mon 2026\r\n"))
			case text == leave:
				p.over(ended{Exited: true})
			}
		}
	}
	t.Run("it says what is expected", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newProgram(answers(""))
			s := one(t, scenarios.Session{Behaviour: "scripted", Script: script}, p, time.Minute)
			if s.Class != history.Clean || (s.End-s.Open).Round(time.Millisecond) != 3*time.Second {
				t.Errorf("%s after %s (%s)", s.Class, s.End-s.Open, s.Reason)
			}
			if diff := cmp.Diff(shell+"\nwhoami\ndate\n"+leave, p.typed.String()); diff != "" {
				t.Errorf("typed (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("it does not say what is expected", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := one(t, scenarios.Session{Behaviour: "scripted", Script: script}, newProgram(answers("date")), time.Minute)
			// Keep-alives are answered all the time.
			if s.Class != history.Stalled || (s.End-s.Open).Round(time.Millisecond) != 3*time.Second+stall || len(s.Gaps) == 0 {
				t.Errorf("%s after %s (%s), gaps %v", s.Class, s.End-s.Open, s.Reason, s.Gaps)
			}
		})
	})
}

// TestBulk: the far side writes at the rate, and all of it is checked.
func TestBulk(t *testing.T) {
	for _, rate := range []int64{100, 10_000, 2 << 20} {
		synctest.Test(t, func(t *testing.T) {
			p := newProgram(func(p *program, text string) {
				switch {
				case prompted(p, text):
				case text == endOfInput:
					p.over(ended{Exited: true})
				default:
					p.say([]byte(strings.ReplaceAll(text, "\n", "\r\n")))
				}
			})
			s := one(t, scenarios.Session{Behaviour: "bulk", Rate: rate, Length: scenarios.Always(20 * time.Second)}, p, time.Minute)
			got := float64(s.BytesSent) / 20
			if s.Class != history.Clean || got < 0.9*float64(rate) || got > 1.1*float64(rate) || s.Lines.Acked != s.Lines.Sent || s.Lines.Bad > 0 {
				t.Errorf("%s: %.0f bytes a second, want %d; %+v", s.Class, got, rate, s.Lines.Acked)
			}
		})
	}
}

// TestKubeExec: the session goes to a container, and its token stands in the command, for the audit log.
func TestKubeExec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgram(func(p *program, text string) {
			if text == endOfInput {
				p.over(ended{Exited: true})
				return
			}
			p.say([]byte(text))
		})
		time.AfterFunc(50*time.Millisecond, func() { p.say([]byte(markBegin + markEnd + "\r\n")) })
		s := one(t, scenarios.Session{Kind: scenarios.KubeExec, Behaviour: "interactive", Length: scenarios.Always(10 * time.Second), Pace: scenarios.Always(time.Second)}, p, time.Minute)
		if s.Class != history.Clean || s.Agent.Pod.UID != "s0" || s.Lines.Acked < 9 || s.ServerSession != "" || !s.Recorded {
			t.Errorf("%+v", s)
		}
		if !strings.Contains(p.launched.Command, s.Lines.Token) || len(s.Lines.Token) != lines.TokenLength {
			t.Errorf("no token %q in %q", s.Lines.Token, p.launched.Command)
		}
	})
}

func TestMarked(t *testing.T) {
	tests := []struct {
		because, text, id string
		ok                bool
	}{
		{"the mark with an id", markBegin + "abc-1" + markEnd, "abc-1", true},
		{"after a prompt", "$ " + markBegin + "abc" + markEnd, "abc", true},
		{"no id is known", markBegin + markEnd, "", true},
		{"the command that will print it", "$ " + plain, "", false},
		{"something else", "Welcome", "", false},
		{"cut off", markBegin + "abc", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			if id, ok := marked([]byte(tt.text)); ok != tt.ok || ok && id != tt.id {
				t.Errorf("got %q, %t", id, ok)
			}
		})
	}
}

func TestSupports(t *testing.T) {
	tests := []struct {
		session scenarios.Session
		says    string // empty: supported
	}{
		{scenarios.Session{Kind: "ssh", Behaviour: "interactive"}, ""},
		{scenarios.Session{Kind: "kube-exec", Behaviour: "idle"}, ""},
		{scenarios.Session{Kind: "kube-port-forward", Behaviour: "transfer"}, `cannot do behaviour "transfer" in kube-port-forward sessions`},
		{scenarios.Session{Kind: "kube-exec", Behaviour: "channels"}, `cannot do behaviour "channels" in kube-exec sessions`},
		{scenarios.Session{Kind: "kube-watch", Behaviour: "watch", Keepalive: scenarios.Span(time.Second)}, "at least 2s"},
		{scenarios.Session{Kind: "ssh", Behaviour: "bulk", Rate: 1 << 30}, "at most 4 MiB/s"},
		{scenarios.Session{Kind: "kube-exec", Behaviour: "command", Length: scenarios.Always(time.Second)}, "no length"},
	}
	for _, tt := range tests {
		err := Supports(tt.session)
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%s %s: %v", tt.session.Kind, tt.session.Behaviour, err)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s %s: got %v, want %q", tt.session.Kind, tt.session.Behaviour, err, tt.says)
		}
	}
}

// TestEveryBehaviourIsDone: the engine does each row of the language, for each kind, and none that is no row.
func TestEveryBehaviourIsDone(t *testing.T) {
	said := map[string]bool{}
	for _, row := range scenarios.Behaviours() {
		for _, kind := range row.Kinds {
			said[row.Name+" "+kind] = true
			if err := Supports(scenarios.Session{Kind: kind, Behaviour: row.Name, Rate: 1, Keepalive: scenarios.Span(5 * time.Second)}); err != nil {
				t.Errorf("%s %s: %v", kind, row.Name, err)
			}
		}
	}
	for _, b := range behaviours() {
		for _, kind := range b.kinds {
			if !said[b.name+" "+kind] {
				t.Errorf("%s %s is done, and no scenario can say it", kind, b.name)
			}
		}
	}
}
