package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gravitational/teleport/api/types"
	"github.com/gravitational/teleport/api/types/events"

	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/recorder"
	"shakedown.dev/shakedown/standin/sshutil"
)

// launch starts the program that was asked for.
func (s *session) launch(ctx context.Context) (Program, error) {
	if err := s.permit(); err != nil {
		return nil, err
	}
	if s.wantShell && s.pty == nil {
		// The real node gives every shell a terminal.
		s.pty = &PTY{Modes: map[uint8]uint32{}}
		s.pty.fill()
	}
	if s.subsystem == "" {
		if err := s.openRecording(ctx); err != nil {
			return nil, err
		}
	}
	p, err := s.conn.target.Runner.Start(ctx, Request{
		Login: s.conn.User(), Command: s.command, Subsystem: s.subsystem, PTY: s.pty, Env: s.environment(), ClientEnv: s.env, SessionID: s.id, Conn: s.conn,
	})
	if err != nil {
		s.abandon(ctx)
		return nil, err
	}
	if s.audited {
		s.emit(s.startEvent())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.program = p
	if s.gone {
		p.Kill() // nobody else will
	}
	return p, nil
}

func (s *session) permit() error {
	id := s.conn.Identity
	if s.pty != nil && !id.Permits(sshutil.PermitPTY) {
		return errors.New("pty not permitted by certificate")
	}
	if s.subsystem == "sftp" && (!s.conn.srv.cfg.FileCopy || !s.conn.Access.FileCopying()) {
		return errors.New("file copying via SCP or SFTP is not permitted")
	}
	return nil
}

// openRecording makes the session known: tracker first, as a session nobody can track is refused, then the recording.
func (s *session) openRecording(ctx context.Context) error {
	srv := s.conn.srv
	if err := srv.trackers.Track(ctx, Tracked{
		ID: s.id, Kind: types.SSHSessionKind, User: s.conn.Identity.User, Login: s.conn.User(), Started: s.started,
		Hostname: s.conn.target.Server.ServerHostname, Address: s.conn.target.Server.ServerID,
	}); err != nil {
		return fmt.Errorf("track session: %w", err)
	}
	rec, err := srv.cfg.Recorder.Open(ctx, recorder.Options{
		SessionID: s.id, Mode: s.mode, ServerID: s.conn.target.Server.ServerID,
		Discard: s.recordedElsewhere(),
		Strict:  s.conn.Access.StrictRecording(),
		Lost:    s.recordingLost,
	})
	if err != nil {
		srv.trackers.Remove(s.id)
		return fmt.Errorf("session terminating: %w", err)
	}
	s.recorder, s.audited = rec, true
	return nil
}

// recordedElsewhere is so for a node behind a recording proxy.
func (s *session) recordedElsewhere() bool { return recorder.AtProxy(s.mode) != s.conn.srv.cfg.AtProxy }

func (s *session) abandon(ctx context.Context) {
	if s.audited {
		s.conn.srv.trackers.Remove(s.id)
		s.recorder.Complete(ctx)
	}
}

// recordingLost ends a session that must be recorded and warns in one that need not.
func (s *session) recordingLost(error) {
	if !s.conn.Access.StrictRecording() {
		io.WriteString(s.ch, "Warning: Session recording is disabled due to an error.\r\n")
		return
	}
	if p := s.running(); p != nil {
		p.Kill()
	}
}

func (s *session) emit(event events.AuditEvent) {
	if s.recorder == nil {
		return
	}
	if err := s.recorder.Emit(event); err != nil {
		s.conn.srv.cfg.Log.Warn("emit session event", "session", s.id, "type", event.GetType(), "err", err)
	}
}

// run serves the program and ends the session after it.
func (s *session) run(p Program) {
	srv := s.conn.srv
	interactive := s.audited && s.pty != nil
	var out io.Writer = s.ch
	if interactive {
		srv.sessions.Inc()
		defer srv.sessions.Dec()
		out = recorded{s.recorder, s.ch}
	}
	srv.cfg.Faults.Leak(s.id)
	strikes := s.armFaults()
	exit := p.Run(s.ch, out, s.ch.Stderr())
	for _, t := range strikes {
		t.Stop()
	}
	exit.send(s.ch)
	s.ch.Close()
	srv.rx.Add(float64(s.conn.wire.read.Load()))
	srv.tx.Add(float64(s.conn.wire.written.Load()))
	switch {
	case srv.abandoned.Load():
	case s.audited:
		s.finish(exit, interactive)
	default:
		srv.cfg.Emitter.Emit(s.conn.dataEvent(""))
	}
}

// finish writes the end of the session into recording and audit log.
func (s *session) finish(exit Exit, interactive bool) {
	srv := s.conn.srv
	if s.command != "" {
		s.emit(s.execEvent(exit))
	}
	if !s.recordedElsewhere() {
		srv.cfg.Emitter.Emit(s.conn.dataEvent(s.id))
	}
	if interactive {
		s.emit(s.leaveEvent())
	} else {
		time.Sleep(execLinger)
	}
	s.emit(s.endEvent())
	srv.trackers.Ended(s.id)
	if err := s.recorder.Complete(context.Background()); err != nil {
		srv.cfg.Log.Warn("complete recording", "session", s.id, "err", err)
	}
	srv.cfg.Faults.Forget(s.id)
}

// recorded writes output into the recording before the client gets it, so that what a client has seen was recorded.
type recorded struct {
	recorder *recorder.Recorder
	client   io.Writer
}

func (r recorded) Write(p []byte) (int, error) {
	if _, err := r.recorder.Write(p); err != nil {
		return 0, err
	}
	return r.client.Write(p)
}

// armFaults sets the planted faults of this session's transport going.
func (s *session) armFaults() []*time.Timer {
	var timers []*time.Timer
	reg, w := s.conn.srv.cfg.Faults, s.conn.wire
	arm := func(name faults.Name, strike func(faults.Rule) string) {
		rule, ok := reg.Active(name, s.id)
		if !ok {
			return
		}
		timers = append(timers, time.AfterFunc(rule.After, func() { reg.Record(name, s.id, strike(rule)) }))
	}
	arm(faults.DropSilently, func(faults.Rule) string {
		w.Close()
		return "transport closed without exit status or message"
	})
	arm(faults.HalfOpen, func(faults.Rule) string {
		w.strike(wireHalfOpen, 0)
		return "transport neither read nor written any more, left open"
	})
	arm(faults.Stall, func(rule faults.Rule) string {
		lasting := rule.Duration(30 * time.Second)
		w.strike(wireStalled, lasting)
		return "transport held for " + lasting.String()
	})
	return timers
}
