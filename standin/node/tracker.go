package node

import (
	"context"
	"time"

	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/process"
)

// track creates the session's tracker.
func (s *Server) track(ctx context.Context, sess *session) error {
	tracker, err := types.NewSessionTracker(types.SessionTrackerSpecV1{
		SessionID:    sess.id,
		Kind:         string(types.SSHSessionKind),
		State:        types.SessionState_SessionStateRunning,
		Created:      sess.started,
		Expires:      sess.started.Add(s.cfg.Scale.Of(process.TrackerTTL)),
		Hostname:     sess.conn.target.Server.ServerHostname,
		Address:      sess.conn.target.Server.ServerID,
		ClusterName:  s.cfg.Auth.Identity().Cluster,
		Login:        sess.conn.User(),
		HostUser:     sess.conn.Identity.User,
		Participants: []types.Participant{{ID: sess.id, User: sess.conn.Identity.User, Mode: string(types.SessionPeerMode), LastActive: sess.started}},
	})
	if err != nil {
		return err
	}
	return s.cfg.Auth.CreateTracker(ctx, tracker)
}

func (s *Server) untrack(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), trackerTimeout)
	defer cancel()
	if err := s.cfg.Auth.RemoveTracker(ctx, id); err != nil {
		s.cfg.Log.Debug("remove tracker", "session", id, "err", err)
	}
}

const trackerTimeout = 10 * time.Second

func (s *Server) running(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[sess.id] = sess
}

// ended lets the tracker live on for a short while, marked as terminated.
func (s *Server) ended(sess *session) {
	s.mu.Lock()
	delete(s.sessions, sess.id)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), trackerTimeout)
	defer cancel()
	err := s.cfg.Auth.SetTrackerState(ctx, sess.id, types.SessionState_SessionStateTerminated)
	if err == nil {
		err = s.cfg.Auth.RefreshTracker(ctx, sess.id, time.Now().Add(s.cfg.Scale.Of(process.TrackerEndedTTL)))
	}
	if err != nil {
		s.cfg.Log.Debug("close tracker", "session", sess.id, "err", err)
	}
}

// refreshTrackers moves the expiry of all running sessions' trackers while the server lives.
func (s *Server) refreshTrackers(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.Scale.Of(process.TrackerRefresh))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, id := range s.sessionIDs() {
			if err := s.cfg.Auth.RefreshTracker(ctx, id, time.Now().Add(s.cfg.Scale.Of(process.TrackerTTL))); err != nil {
				s.cfg.Log.Warn("refresh tracker", "session", id, "err", err)
			}
		}
	}
}

func (s *Server) sessionIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.sessions))
	for id := range s.sessions {
		ids = append(ids, id)
	}
	return ids
}
