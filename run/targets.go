package run

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/load"
	"shakedown.dev/shakedown/load/recordings"
	"shakedown.dev/shakedown/run/watch"
	"shakedown.dev/shakedown/teleport/agents"
	"shakedown.dev/shakedown/teleport/helm"
	"shakedown.dev/shakedown/teleport/kube"
	"shakedown.dev/shakedown/teleport/pods"
	"shakedown.dev/shakedown/teleport/ssh"
	"shakedown.dev/shakedown/teleport/tctl"
)

// targets are where sessions can go at a moment; it implements load.Targets
// over the watch.
type targets struct {
	t     *trial
	state *watch.State
	ssh   *ssh.Client // of the observer, for the control arm

	mu       sync.Mutex
	agents   []history.Agent // registered, whether or not their pods still live
	controls []control       // likewise, beside Teleport

	reached reached // pods that are not ready and whose agents answer
}

// control is one agent of the control arm.
type control struct {
	agent history.Agent
	load.Control
}

func newTargets(t *trial) (*targets, error) {
	out := &targets{t: t, state: t.state, agents: t.system.agents}
	var err error
	out.ssh, err = ssh.New(ssh.Options{Dial: t.cluster.DialContext, Identity: t.system.observer(), ForwardAgent: t.system.recordsAtProxy(), Timeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	for _, a := range t.system.control {
		out.addControl(a)
	}
	return out, nil
}

// addControl takes an agent that listens into the control arm.
func (g *targets) addControl(a history.Agent) {
	if p, ok := g.state.Pod(a.Pod.UID); ok {
		g.controls = append(g.controls, control{a, load.DirectNode(g.ssh, net.JoinHostPort(p.IP, controlPort), a)})
	}
}

// controlPort is where agents that join directly listen.
const controlPort = "3022"

// Proxies implements load.Targets.
func (g *targets) Proxies() []load.Proxy {
	var out []load.Proxy
	for _, p := range g.state.Proxies() {
		out = append(out, load.Proxy{Pod: p.Ref(), Ready: p.Ready && !p.Terminating, SSH: p.Through(false)})
	}
	return out
}

// Service implements load.Targets.
func (g *targets) Service() load.Proxy {
	return load.Proxy{Ready: true, SSH: ssh.Proxy{Address: net.JoinHostPort(g.t.system.facts.ProxyHost(), "443")}}
}

// Agents implements load.Targets: those whose pods are ready and stay.
func (g *targets) Agents() []history.Agent {
	g.mu.Lock()
	all := g.agents
	g.mu.Unlock()
	var out []history.Agent
	for _, a := range all {
		if g.stays(a) {
			out = append(out, a)
		}
	}
	return out
}

// stays says whether the agent's pod is ready, or can be reached all the same, and is not being ended.
func (g *targets) stays(a history.Agent) bool {
	p, ok := g.state.Pod(a.Pod.UID)
	return ok && !p.Terminating && (p.Ready || g.reached.lately(p.UID))
}

// KubePods implements load.Targets: Kubernetes sessions go to the agents' pods, through Teleport and beside its
// agents, and forwarded ports to their diagnostics.
func (g *targets) KubePods() []load.KubePod {
	var out []load.KubePod
	for _, p := range g.state.Running(pods.Agent) {
		if !p.Ready || p.Terminating || strings.HasPrefix(p.Name, controlRelease+"-") {
			continue
		}
		out = append(out, load.KubePod{
			Pod: p.Ref(), Target: kube.Target{Namespace: p.Namespace, Pod: p.Name, Container: firstAgent}, Port: diagPort,
		})
	}
	return out
}

// firstAgent is the container of an agent's pod that commands run in, diagPort where it serves /healthz.
const (
	firstAgent = "agent-0"
	diagPort   = 3000
)

// Controls implements load.Targets.
func (g *targets) Controls() []load.Control {
	g.mu.Lock()
	all := g.controls
	g.mu.Unlock()
	var out []load.Control
	for _, c := range all {
		if g.there(c.agent.Pod.UID) { // whatever it says of itself: it is dialled without Teleport
			out = append(out, c.Control)
		}
	}
	return out
}

// follow finds out about agents whose pods were replaced, until ctx ends.
func (g *targets) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Second):
		}
		if !g.unknown() {
			continue
		}
		nodes, err := g.t.system.tctl.Nodes(ctx)
		if err != nil {
			g.t.Log.Debug("list agents", "err", err)
			continue
		}
		g.learn(agents.Named(of(nodes, agentsRelease), g.state.List(pods.Agent)), agents.Named(of(nodes, controlRelease), g.state.List(pods.Agent)))
	}
}

// of keeps the nodes of one fleet.
func of(nodes []tctl.Node, fleet string) []tctl.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n tctl.Node) bool { return n.Labels[fleetLabel] != fleet })
}

// neverReady is when an agent's pod that is not ready yet is looked for among those that registered.
const neverReady = 20 * time.Second

// unknown says whether an agent pod has agents that are not known yet.
func (g *targets) unknown() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.state.List(pods.Agent) {
		if (p.Ready || time.Since(p.Created) > neverReady) && !p.Terminating && !g.known(p) {
			return true
		}
	}
	return false
}

// known says whether all agents of the pod are. The caller holds g.mu.
func (g *targets) known(p pods.Pod) bool {
	if slices.ContainsFunc(g.controls, func(c control) bool { return c.agent.Pod.UID == p.UID }) {
		return true
	}
	n := 0
	for _, a := range g.agents {
		if a.Pod.UID == p.UID {
			n++
		}
	}
	return n >= g.t.plan.Teleport.Agents.PerPod
}

// learn adds agents that were not known, and has those that carry load in the
// history.
func (g *targets) learn(fleet, controls []history.Agent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.Clone(g.agents)
	for _, a := range fleet {
		if a.Pod.UID == "" || slices.ContainsFunc(all, func(b history.Agent) bool { return b.UUID == a.UUID }) {
			continue
		}
		all = append(all, a)
		g.state.Record(history.Event{Subject: a.Host, Data: history.AgentChange{Agent: a, State: "registered"}})
	}
	g.agents = all
	g.controls = slices.Clone(g.controls)
	for _, a := range controls {
		if a.Pod.UID != "" && !slices.ContainsFunc(g.controls, func(c control) bool { return c.agent.UUID == a.UUID }) {
			g.addControl(a)
		}
	}
}

// holder tells what became of a pod that held recordings.
func (g *targets) holder(pod history.PodRef, since time.Duration) recordings.Holder {
	p, there := g.state.Pod(pod.UID)
	h := recordings.Holder{Gone: !there || p.Phase == "Failed" || p.Phase == "Succeeded", Storage: g.storage(pod.Component)}
	h.Restarted = g.t.ends.since(pod.UID, since)
	return h
}

// storage is what kind of volume the data of a component is on.
func (g *targets) storage(component string) string {
	if component == pods.Auth {
		if on, ok := helm.Get(g.t.system.values, "persistence", "enabled"); !ok || on == true {
			return "pvc"
		}
	}
	return "emptyDir"
}

// containerEnds remembers when a container of each pod last ended.
type containerEnds struct {
	mu   sync.Mutex
	last map[string]time.Duration // by pod UID
}

// tap reads along what goes into the history.
func (c *containerEnds) tap(e history.Event) {
	end, ok := e.Data.(history.ContainerEnd)
	if !ok || end.Init {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]time.Duration{}
	}
	c.last[end.Pod.UID] = max(c.last[end.Pod.UID], e.At)
}

// since says whether a container of the pod ended after a moment of the run.
func (c *containerEnds) since(uid string, t time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.last[uid]
	return ok && last > t
}
