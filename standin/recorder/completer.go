package recorder

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gravitational/teleport/api/types/events"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"shakedown.dev/shakedown/standin/process"
)

// runCompleter finishes recordings that were abandoned: first after half to one period, then every period.
func (h *Host) runCompleter(ctx context.Context) {
	period := h.cfg.Scale.Of(process.CompleterPoll)
	wait := period/2 + rand.N(period/2)
	for sleep(ctx, wait) {
		wait = period
		if err := h.completeAbandoned(ctx); err != nil {
			h.cfg.Log.Warn("check uploads", "err", err)
		}
	}
}

type pendingUpload struct {
	id, session string
	begun       time.Time
}

// completeAbandoned completes uploads whose session tracker is gone. An error other than that ends the pass, as in the real program.
func (h *Host) completeAbandoned(ctx context.Context) error {
	uploads, err := h.pendingUploads()
	if err != nil {
		return err
	}
	h.incomplete.Set(float64(len(uploads)))
	for _, u := range uploads {
		_, err := h.cfg.Auth.Tracker(ctx, u.session)
		if err == nil {
			continue
		}
		if status.Code(err) != codes.NotFound {
			return fmt.Errorf("tracker of session %s: %w", u.session, err)
		}
		if time.Since(u.begun) < h.cfg.Scale.Of(h.cfg.Behaviour.CompleterGrace) {
			continue
		}
		if err := h.completeOne(ctx, u); err != nil {
			return err
		}
		h.incomplete.Dec()
	}
	return nil
}

func (h *Host) completeOne(ctx context.Context, u pendingUpload) error {
	parts, err := h.parts(u.id, u.session)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return os.RemoveAll(filepath.Join(h.multiDir(), u.id))
	}
	if err := h.completeUpload(u.id, u.session); err != nil {
		return err
	}
	h.cfg.Log.Info("completed an abandoned recording", "session", u.session, "parts", len(parts))
	h.wg.Go(func() {
		if !sleep(ctx, h.cfg.Scale.Of(process.CompleterEndDelay)) {
			return
		}
		if err := h.ensureEnd(ctx, u.session); err != nil {
			h.cfg.Log.Warn("ensure session end event", "session", u.session, "err", err)
		}
	})
	upload := &events.SessionUpload{
		Metadata:        events.Metadata{Type: TypeUpload, Code: CodeUpload, Index: math.MaxInt32},
		SessionMetadata: events.SessionMetadata{SessionID: u.session},
		SessionURL:      "file://" + filepath.Join(h.multiDir(), u.session),
	}
	complete(upload, h.cfg.Auth.Identity().Cluster)
	return h.cfg.Auth.Emit(ctx, upload)
}

// pendingUploads lists unfinished uploads, oldest first.
func (h *Host) pendingUploads() ([]pendingUpload, error) {
	dirs, err := os.ReadDir(h.multiDir())
	if err != nil {
		return nil, err
	}
	var uploads []pendingUpload
	for _, dir := range dirs {
		sessions, err := os.ReadDir(filepath.Join(h.multiDir(), dir.Name()))
		if err != nil || len(sessions) != 1 {
			continue // finished meanwhile, or nothing of ours
		}
		info, err := dir.Info()
		if err != nil {
			continue
		}
		uploads = append(uploads, pendingUpload{id: dir.Name(), session: sessions[0].Name(), begun: info.ModTime()})
	}
	slices.SortFunc(uploads, func(a, b pendingUpload) int { return a.begun.Compare(b.begun) })
	return uploads, nil
}

// ensureEnd emits the session.end that an abandoned recording lacks, made from what it holds.
func (h *Host) ensureEnd(ctx context.Context, session string) error {
	end, err := h.missingEnd(ctx, session)
	if err != nil || end == nil {
		return err
	}
	complete(end, h.cfg.Auth.Identity().Cluster)
	return h.cfg.Auth.Emit(ctx, end)
}

// missingEnd is nil if the recording has an end.
func (h *Host) missingEnd(ctx context.Context, session string) (*events.SessionEnd, error) {
	var end *events.SessionEnd
	var last time.Time
	ended := false
	err := h.cfg.Auth.Playback(ctx, session, func(event events.AuditEvent) error {
		last = event.GetTime()
		switch e := event.(type) {
		case *events.SessionStart:
			end = endOf(e)
		case *events.SessionEnd:
			ended = true
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case ended:
		return nil, nil
	case end == nil:
		return nil, errors.New("invalid session, could not find session start")
	}
	end.EndTime = last
	end.SetTime(last)
	return end, nil
}

func endOf(e *events.SessionStart) *events.SessionEnd {
	return &events.SessionEnd{
		Metadata:                  events.Metadata{Type: TypeEnd, Code: CodeEnd, ClusterName: e.ClusterName},
		UserMetadata:              e.UserMetadata,
		SessionMetadata:           e.SessionMetadata,
		ServerMetadata:            e.ServerMetadata,
		ConnectionMetadata:        e.ConnectionMetadata,
		KubernetesClusterMetadata: e.KubernetesClusterMetadata,
		KubernetesPodMetadata:     e.KubernetesPodMetadata,
		InitialCommand:            e.InitialCommand,
		SessionRecording:          e.SessionRecording,
		Interactive:               e.TerminalSize != "",
		Participants:              []string{e.User},
		StartTime:                 e.Time,
	}
}
