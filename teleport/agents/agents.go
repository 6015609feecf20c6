// Package agents is the fleet of SSH nodes that sessions go to: what to install, and whether it is there. A pod
// that is ready is not yet an agent that can be reached, so two things are counted: nodes that registered, and nodes
// that were dialled.
package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/lab"
	"shakedown.dev/shakedown/teleport/pods"
	"shakedown.dev/shakedown/teleport/ssh"
	"shakedown.dev/shakedown/teleport/tctl"
)

// Fleet says what agents there shall be.
type Fleet struct {
	Pods, PerPod int
	Image        string // without tag; empty: the chart's
	Version      string // of the program, and the image's tag
	Labels       map[string]string
	// Direct lets the nodes listen on their pod's address and join the auth itself, instead of a tunnel through
	// the proxies: for the control arm, which dials them beside Teleport.
	Direct bool
	Extra  helm.Values // the author's further values of the agents chart; they win
}

// Values are those of the agents chart for a fleet of the installation.
func (f Fleet) Values(facts lab.Facts) helm.Values {
	v := helm.Values{
		"replicaCount": f.Pods, "agentsPerPod": max(f.PerPod, 1), "authToken": facts.AgentToken,
		"proxyAddr": facts.ProxyHost() + ":443", "teleportVersionOverride": f.Version,
	}
	if f.Image != "" {
		v["image"] = f.Image
	}
	if f.Direct {
		v["join"], v["authAddr"] = "direct", facts.AuthHost()+":3025"
	}
	if len(f.Labels) > 0 {
		labels := helm.Values{}
		for k, val := range f.Labels {
			labels[k] = val
		}
		v["labels"] = labels
	}
	return helm.Merge(v, f.Extra)
}

// Count is how many nodes the fleet has when it is complete.
func (f Fleet) Count() int { return f.Pods * max(f.PerPod, 1) }

// Status is what is there of a fleet.
type Status struct {
	Want       int
	Registered int // listed by the auth
	Dialable   int // a connection to them was opened through a proxy
	Nodes      []tctl.Node
	Last       error // the last dial that failed
}

// Complete tells whether every node is registered and was dialled.
func (s Status) Complete() bool { return s.Registered >= s.Want && s.Dialable >= s.Want }

// Finder finds out about a fleet.
type Finder struct {
	Tctl  tctl.Tctl
	SSH   *ssh.Client
	Proxy ssh.Proxy
	// Match tells the fleet's nodes from others; nil: all nodes are.
	Match    func(tctl.Node) bool
	Parallel int // dials at once; zero: 8
}

// Wait looks until want nodes are registered and dialable, or ctx ends, and gives the last look either way. A node
// that was dialled once is not dialled again.
func (f Finder) Wait(ctx context.Context, want int) (Status, error) {
	dialled := map[string]bool{}
	for {
		s, err := f.look(ctx, want, dialled)
		if err == nil && s.Complete() {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, fmt.Errorf("agents: %d of %d registered, %d dialable: %w", s.Registered, want, s.Dialable, errors.Join(ctx.Err(), err, s.Last))
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (f Finder) look(ctx context.Context, want int, dialled map[string]bool) (Status, error) {
	s := Status{Want: want}
	nodes, err := f.Tctl.Nodes(ctx)
	if err != nil {
		return s, err
	}
	for _, n := range nodes {
		if f.Match == nil || f.Match(n) {
			s.Nodes = append(s.Nodes, n)
		}
	}
	s.Registered = len(s.Nodes)
	s.Last = f.dial(ctx, s.Nodes, dialled)
	for _, n := range s.Nodes {
		if dialled[n.UUID] {
			s.Dialable++
		}
	}
	return s, nil
}

// dial connects to each node that was not dialled yet, marks those that answered, and gives the last error.
func (f Finder) dial(ctx context.Context, nodes []tctl.Node, dialled map[string]bool) error {
	var mu sync.Mutex
	var last error
	var wg sync.WaitGroup
	parallel := f.Parallel
	if parallel <= 0 {
		parallel = 8
	}
	gate := make(chan struct{}, parallel)
	for _, n := range nodes {
		if dialled[n.UUID] {
			continue
		}
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			conn, err := f.SSH.Connect(ctx, f.Proxy, ssh.Target{Node: n.UUID})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				last = fmt.Errorf("node %s: %w", n.Host, err)
				return
			}
			conn.Close()
			dialled[n.UUID] = true
		})
	}
	wg.Wait()
	return last
}

// Named gives the agents as the history names them: a node's host name is that of its pod, and a number.
func Named(nodes []tctl.Node, of []pods.Pod) []history.Agent {
	out := make([]history.Agent, len(nodes))
	for i, n := range nodes {
		out[i] = history.Agent{UUID: n.UUID, Host: n.Host}
		name, _, _ := cutLast(n.Host, "-")
		for _, p := range of {
			if p.Name == name || p.Name == n.Host {
				out[i].Pod = p.Ref()
			}
		}
	}
	return out
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
