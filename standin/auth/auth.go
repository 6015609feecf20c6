// Package auth is the stand-in's auth service: authorities, joining, roles and
// users, server heartbeats, the audit log, recordings and session trackers,
// behind the real AuthService gRPC API and the stand-in's private service.
package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gravitational/teleport/api/types/events"
	"github.com/prometheus/client_golang/prometheus"

	"shakedown.dev/shakedown/standin/audit"
	"shakedown.dev/shakedown/standin/ca"
	"shakedown.dev/shakedown/standin/config"
	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/recordings"
	"shakedown.dev/shakedown/standin/state"
)

// Options is what an Auth is made of.
type Options struct {
	Config    *config.Config
	HostUUID  string
	Behaviour process.Behaviour
	Faults    *faults.Registry
	Metrics   prometheus.Registerer
	Log       *slog.Logger
	Scale     process.Scale
	Heartbeat func(component string, err error)
	// Apply is the file of --apply-on-startup; empty: none.
	Apply string
}

// Auth is the service's state. Server puts it on the network.
type Auth struct {
	Options
	cluster    string
	store      state.Store
	log        audit.Log
	recordings *recordings.Storage
	metrics    *metrics
	user, host *ca.Authority

	background sync.WaitGroup
	stop       context.CancelFunc
	life       context.Context

	trackerLock trackerLocks

	orphans sync.Map // upload ID to when it was first seen without a tracker

	staleMu sync.Mutex
	stale   map[string]bool
}

// Open opens the state, and makes authorities and preset roles where there are
// none yet.
func Open(ctx context.Context, o Options) (*Auth, error) {
	a := &Auth{Options: o, cluster: o.Config.Auth.ClusterName, metrics: newMetrics(o.Metrics), stale: map[string]bool{}}
	a.life, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := a.openStorage(); err != nil {
		return nil, err
	}
	if err := a.bootstrap(ctx); err != nil {
		return nil, errors.Join(err, a.store.Close())
	}
	return a, nil
}

func (a *Auth) openStorage() error {
	storage, dataDir := a.Config.Global.Storage, a.Config.Global.DataDir
	logDir, recordDir := filepath.Join(dataDir, "log"), filepath.Join(dataDir, "log", "records")
	var err error
	if storage.Type == "etcd" {
		a.store, err = state.OpenEtcd(storage)
	} else {
		a.store, err = state.OpenLocal(storage.Path)
	}
	if err != nil {
		return err
	}
	a.store = measureStore(a.store, a.Metrics, map[bool]string{true: "etcd", false: "lite"}[storage.Type == "etcd"])
	shared := storage.Type == "etcd"
	sessions, hasSessions := strings.CutPrefix(storage.SessionsURI, "file://")
	switch {
	case hasSessions:
		a.recordings = recordings.OnDisk(sessions)
	case shared:
		a.recordings = recordings.Shared(a.store)
	default:
		a.recordings = recordings.OnDisk(recordDir)
	}
	for _, uri := range storage.EventsURI {
		if dir, ok := strings.CutPrefix(uri, "file://"); ok {
			logDir, shared = dir, false
		}
	}
	if shared {
		a.log = audit.NewShared(a.store)
		return nil
	}
	a.log, err = audit.OpenFiles(logDir, a.HostUUID)
	return err
}

func (a *Auth) bootstrap(ctx context.Context) error {
	var err error
	if a.user, err = a.authority(ctx, "user"); err != nil {
		return err
	}
	if a.host, err = a.authority(ctx, "host"); err != nil {
		return err
	}
	for _, role := range presetRoles() {
		if err := a.createJSON(ctx, roleKey(role.GetName()), role, time.Time{}); err != nil && !errors.Is(err, state.ErrExists) {
			return err
		}
	}
	if a.Apply != "" {
		return a.applyFile(ctx, a.Apply)
	}
	return nil
}

// authority reads the authority of a kind, or makes it. Of two auths that start
// at once only one makes it.
func (a *Auth) authority(ctx context.Context, kind string) (*ca.Authority, error) {
	key := "authorities/" + kind
	var found ca.Authority
	err := a.getJSON(ctx, key, &found)
	if err == nil {
		return &found, a.checkCluster(&found)
	}
	if !errors.Is(err, state.ErrNotFound) {
		return nil, err
	}
	made, err := ca.NewAuthority(kind, a.cluster)
	if err != nil {
		return nil, err
	}
	err = a.createJSON(ctx, key, made, time.Time{})
	if errors.Is(err, state.ErrExists) {
		return a.authority(ctx, kind)
	}
	return made, err
}

func (a *Auth) checkCluster(found *ca.Authority) error {
	if found.Cluster == a.cluster {
		return nil
	}
	a.Log.Warn("cluster_name in the configuration differs from the one this cluster was created with; the old one is kept",
		"configured", a.cluster, "kept", found.Cluster)
	a.cluster = found.Cluster
	return nil
}

func (a *Auth) getJSON(ctx context.Context, key string, into any) error {
	item, err := a.store.Get(ctx, key)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(item.Value, into); err != nil {
		return fmt.Errorf("decode %s: %w", key, err)
	}
	return nil
}

func (a *Auth) createJSON(ctx context.Context, key string, value any, expires time.Time) error {
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	return a.store.Create(ctx, state.Item{Key: key, Value: b, Expires: expires})
}

func (a *Auth) putJSON(ctx context.Context, key string, value any, expires time.Time) error {
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	return a.store.Put(ctx, state.Item{Key: key, Value: b, Expires: expires})
}

// Emit completes an event and puts it into the audit log, unless the fault
// forget-end-event says to lose it.
func (a *Auth) Emit(ctx context.Context, event events.AuditEvent) error {
	if err := audit.Complete(event, a.cluster); err != nil {
		return err
	}
	if event.GetType() == audit.SessionEnd {
		sid := sessionID(event)
		if _, hit := a.Faults.Active(faults.ForgetEndEvent, sid); hit {
			a.Faults.Record(faults.ForgetEndEvent, sid, "session.end not stored")
			return nil
		}
	}
	a.metrics.emitted.Inc()
	if err := a.log.Append(ctx, event); err != nil {
		a.metrics.failedEmit.Inc()
		return fmt.Errorf("store %s event: %w", event.GetType(), err)
	}
	return nil
}

func sessionID(event events.AuditEvent) string {
	if m, ok := event.(interface{ GetSessionID() string }); ok {
		return m.GetSessionID()
	}
	return ""
}

// Close ends what runs in the background and closes the state.
func (a *Auth) Close() error {
	a.stop()
	a.background.Wait()
	return errors.Join(a.log.Close(), a.store.Close())
}
