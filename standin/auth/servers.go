package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/faults"
	"shakedown.dev/shakedown/standin/process"
	"shakedown.dev/shakedown/standin/state"
)

func serverKey(kind, name string) string { return "servers/" + kind + "/" + name }

// serverName is the key of a server; a host may have several Kubernetes services.
func serverName(s types.Server) string { return s.GetName() }

// upsertServer takes a heartbeat. A server without an expiry gets the real
// program's ten minutes.
func (a *Auth) upsertServer(ctx context.Context, s *types.ServerV2) error {
	if err := s.CheckAndSetDefaults(); err != nil {
		return fmt.Errorf("server: %w%w", err, silent{errBadRequest})
	}
	if s.Expiry().IsZero() {
		s.SetExpiry(time.Now().UTC().Add(a.Scale.Of(process.ServerTTL)))
	}
	value, err := s.Marshal()
	if err != nil {
		return err
	}
	a.metrics.heartbeats.Inc()
	item := state.Item{Key: serverKey(s.GetKind(), serverName(s)), Value: value, Expires: s.Expiry()}
	if _, hit := a.Faults.Active(faults.StaleNode, s.GetName()); hit && s.GetKind() == types.KindNode {
		item.Expires = time.Time{} // it will never leave the list
		a.noteStale(s)
	}
	return a.store.Put(ctx, item)
}

// noteStale records the fault once per node, when the node is made immortal.
func (a *Auth) noteStale(s *types.ServerV2) {
	a.staleMu.Lock()
	defer a.staleMu.Unlock()
	if !a.stale[s.GetName()] {
		a.stale[s.GetName()] = true
		a.Faults.Record(faults.StaleNode, s.GetName(), "node "+s.GetHostname()+" stays listed for ever")
	}
}

func (a *Auth) deleteServer(ctx context.Context, kind, name string) error {
	if _, hit := a.Faults.Active(faults.StaleNode, name); hit && kind == types.KindNode {
		return nil
	}
	err := a.store.Delete(ctx, serverKey(kind, name))
	if errors.Is(err, state.ErrNotFound) {
		return fmt.Errorf("%s %q is not found%w", kind, name, silent{state.ErrNotFound})
	}
	return err
}

func (a *Auth) servers(ctx context.Context, kind string) ([]*types.ServerV2, error) {
	items, err := a.store.List(ctx, serverKey(kind, ""))
	if err != nil {
		return nil, err
	}
	out := make([]*types.ServerV2, 0, len(items))
	for _, item := range items {
		s := new(types.ServerV2)
		if err := s.Unmarshal(item.Value); err != nil {
			return nil, fmt.Errorf("decode %s: %w", item.Key, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// countServers keeps the gauges of connected resources up to date.
func (a *Auth) countServers(ctx context.Context) error {
	versions := map[string]int{}
	for kind, label := range map[string]string{types.KindNode: "node", types.KindProxy: "proxy", types.KindKubeService: "kube", types.KindAuthServer: "auth"} {
		servers, err := a.servers(ctx, kind)
		if err != nil {
			return err
		}
		a.metrics.connected.WithLabelValues(label).Set(float64(len(servers)))
		for _, s := range servers {
			versions[s.GetTeleportVersion()]++
		}
	}
	a.metrics.registered.Reset()
	for version, n := range versions {
		a.metrics.registered.WithLabelValues(version).Set(float64(n))
	}
	return nil
}

// announce keeps this auth in the list of auth servers until it is closed.
func (a *Auth) announce(addr string) {
	defer a.background.Done()
	tick := time.NewTicker(a.Scale.BeatEvery())
	defer tick.Stop()
	var last time.Time
	for {
		var err error
		if time.Since(last) > a.Scale.Of(process.Announce) {
			if err = a.announceOnce(addr); err == nil {
				last = time.Now()
			}
		} else {
			_, err = a.store.Get(a.life, "authorities/host") // is the backend there?
		}
		if err == nil {
			err = a.countServers(a.life)
		}
		if a.Heartbeat != nil && a.life.Err() == nil {
			a.Heartbeat("auth", err)
		}
		select {
		case <-a.life.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *Auth) announceOnce(addr string) error {
	s, err := types.NewServer(a.HostUUID, types.KindAuthServer, types.ServerSpecV2{
		Addr: addr, Hostname: a.Config.Global.NodeName, Version: a.Behaviour.Version,
	})
	if err != nil {
		return err
	}
	return a.upsertServer(a.life, s.(*types.ServerV2))
}
