package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gravitational/teleport/api/types/events"

	"shakedown.dev/shakedown/standin/audit"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/protostream"
	"shakedown.dev/shakedown/standin/recordings"
	"shakedown.dev/shakedown/standin/state"
)

// completer finishes synchronous recordings whose sender is gone: every five
// minutes it completes each upload that has no tracker any more, and two minutes
// later it adds a session.end if the recording has none (lib/events/complete.go).
func (a *Auth) completer() {
	defer a.background.Done()
	poll := a.Scale.Of(process.CompleterPoll)
	timer := time.NewTimer(poll*3/4 + a.jitter(poll/4)) // the first comes after half to all of it
	defer timer.Stop()
	for {
		select {
		case <-a.life.Done():
			return
		case <-timer.C:
		}
		if err := a.completeUploads(a.life); err != nil && a.life.Err() == nil {
			a.Log.Warn("Failed to check uploads.", "error", err)
		}
		timer.Reset(poll)
	}
}

// jitter is a fixed share by the host's UUID, so that several auths do not
// complete at the same moment and tests need no randomness.
func (a *Auth) jitter(d time.Duration) time.Duration {
	n := 0
	for _, b := range []byte(a.HostUUID) {
		n += int(b)
	}
	return d * time.Duration(n%100-50) / 50
}

// completeUploads is one pass. As in the real program, an error other than "no
// such tracker" ends the pass, so one bad upload can block the others.
func (a *Auth) completeUploads(ctx context.Context) error {
	uploads, err := a.recordings.Uploads(ctx)
	if err != nil {
		return err
	}
	incomplete := 0
	for _, u := range uploads {
		_, err := a.tracker(ctx, u.SessionID)
		switch {
		case err == nil:
			incomplete++
			continue
		case !errors.Is(err, state.ErrNotFound):
			return err
		}
		if grace := a.Behaviour.CompleterGrace; grace > 0 && !a.olderThan(u, grace) {
			incomplete++
			continue
		}
		if err := a.completeUpload(ctx, u); err != nil {
			return err
		}
	}
	a.metrics.incomplete.Set(float64(incomplete))
	return nil
}

// olderThan counts from when this auth first saw the upload without a tracker.
func (a *Auth) olderThan(u recordings.Upload, grace time.Duration) bool {
	first, ok := a.orphans.LoadOrStore(u.ID, time.Now())
	return ok && time.Since(first.(time.Time)) >= a.Scale.Of(grace)
}

func (a *Auth) completeUpload(ctx context.Context, u recordings.Upload) error {
	if len(u.Parts) == 0 {
		a.Log.Warn("Upload has no parts, its session's recording is lost.", "session", u.SessionID)
		return a.recordings.Abort(ctx, u)
	}
	err := a.finish(ctx, u.SessionID, func(ctx context.Context) error { return a.recordings.Complete(ctx, u) })
	if err != nil {
		return fmt.Errorf("complete upload of session %s: %w", u.SessionID, err)
	}
	a.orphans.Delete(u.ID)
	a.background.Go(func() {
		select {
		case <-a.life.Done():
			return
		case <-time.After(a.Scale.Of(process.CompleterEndDelay)):
		}
		if err := a.ensureEnd(a.life, u.SessionID); err != nil {
			a.Log.Warn("Failed to add session.end.", "session", u.SessionID, "error", err)
		}
	})
	return nil
}

// ensureEnd adds session.end to the audit log if the recording has none.
func (a *Auth) ensureEnd(ctx context.Context, sid string) error {
	file, err := a.recordings.Open(ctx, sid)
	if err != nil {
		return err
	}
	defer file.Close()
	var end events.SessionEnd
	var last time.Time
	for dec := protostream.NewDecoder(file); ; {
		event, err := dec.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
		last = event.GetTime()
		switch e := event.(type) {
		case *events.SessionEnd:
			return nil
		case *events.SessionStart:
			end = endOf(e)
		case *events.SessionJoin:
			if !slices.Contains(end.Participants, e.User) {
				end.Participants = append(end.Participants, e.User)
			}
		}
	}
	if end.Code == "" {
		return fmt.Errorf("session %s: no session.start in the recording", sid)
	}
	end.EndTime = last
	end.SetTime(last)
	return a.Emit(ctx, &end)
}

func endOf(e *events.SessionStart) events.SessionEnd {
	return events.SessionEnd{
		Metadata:     events.Metadata{Type: audit.SessionEnd, Code: audit.SessionEndCode, ClusterName: e.ClusterName},
		UserMetadata: e.UserMetadata, SessionMetadata: e.SessionMetadata, ServerMetadata: e.ServerMetadata,
		ConnectionMetadata: e.ConnectionMetadata, KubernetesClusterMetadata: e.KubernetesClusterMetadata,
		KubernetesPodMetadata: e.KubernetesPodMetadata, InitialCommand: e.InitialCommand, SessionRecording: e.SessionRecording,
		StartTime: e.Time, Interactive: e.TerminalSize != "", Participants: []string{e.User},
	}
}
