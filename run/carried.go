package run

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/history"
)

// carried counts the sessions that each pod carries now, by reading along what goes into the history; it
// is chaos.World.Sessions. A session counts for the proxy and for the agent on its path.
type carried struct {
	mu    sync.Mutex
	paths map[string][2]types.UID // of the open sessions, by ID
	count map[types.UID]int
}

func (c *carried) tap(e history.Event) {
	switch s := e.Data.(type) {
	case history.SessionOpened:
		c.opened(s.ID, [2]types.UID{types.UID(s.Proxy.UID), types.UID(s.Agent.Pod.UID)})
	case history.Session:
		c.ended(s.ID)
	}
}

func (c *carried) opened(id string, path [2]types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paths == nil {
		c.paths, c.count = map[string][2]types.UID{}, map[types.UID]int{}
	}
	c.paths[id] = path
	for _, uid := range path {
		c.count[uid]++
	}
}

// ended takes a session off its path, if it was ever open.
func (c *carried) ended(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	path, open := c.paths[id]
	if !open {
		return // it never was; there may not even be a map yet
	}
	for _, uid := range path {
		if c.count[uid]--; c.count[uid] <= 0 {
			delete(c.count, uid)
		}
	}
	delete(c.paths, id)
}

// now are the counts at this moment. Pods that carry nothing are not in it.
func (c *carried) now() map[types.UID]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := maps.Clone(c.count)
	delete(out, "") // whose pod is not known
	return out
}
