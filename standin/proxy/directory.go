package proxy

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gravitational/teleport/api/types"

	"shakedown.dev/shakedown/standin/process"
)

// directory is what the proxy knows of the cluster's servers. It lasts while the auth is away, as the real proxy's cache does.
type directory struct {
	env process.Env

	mu      sync.Mutex
	known   map[string][]types.Server // by kind
	fetched time.Time
}

const (
	directoryPeriod = 2 * time.Second
	directoryFresh  = 250 * time.Millisecond
	directoryLimit  = 5 * time.Second
)

func newDirectory(env process.Env) *directory {
	return &directory{env: env, known: map[string][]types.Server{}}
}

// run keeps the directory fresh and tells of the proxies when their list changed.
func (d *directory) run(ctx context.Context, announce func([]string)) {
	ticker := time.NewTicker(directoryPeriod)
	defer ticker.Stop()
	var told []string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := d.refresh(ctx); err != nil {
			d.env.Log.Debug("refresh servers", "err", err)
			continue
		}
		if now := d.proxies(); !slices.Equal(now, told) {
			announce(now)
			told = now
		}
	}
}

// refresh asks the auth for all servers.
func (d *directory) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, directoryLimit)
	defer cancel()
	fresh := map[string][]types.Server{}
	for _, kind := range []string{types.KindNode, types.KindProxy, types.KindKubeService} {
		servers, err := d.env.Auth.Servers(ctx, kind)
		if err != nil {
			return err
		}
		fresh[kind] = servers
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.fetched = fresh, time.Now()
	return nil
}

// refreshStale refreshes unless that was done a moment ago; for lookups that found nothing.
func (d *directory) refreshStale(ctx context.Context) bool {
	d.mu.Lock()
	fresh := time.Since(d.fetched) < directoryFresh
	d.mu.Unlock()
	return !fresh && d.refresh(ctx) == nil
}

func (d *directory) of(kind string) []types.Server {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[kind]
}

// proxies are the UUIDs of all proxies, this one among them, sorted.
func (d *directory) proxies() []string {
	own := d.env.Auth.Identity().HostUUID
	ids := []string{own}
	for _, p := range d.of(types.KindProxy) {
		if id := p.GetName(); id != own {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (d *directory) kube(ctx context.Context) []types.Server {
	if servers := d.of(types.KindKubeService); len(servers) > 0 {
		return servers
	}
	d.refreshStale(ctx)
	return d.of(types.KindKubeService)
}
