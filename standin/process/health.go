package process

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"shakedown.dev/shakedown/standin/faults"
)

// State is how well a component does (lib/service/state.go).
type State int

// The states, with the numbers of the metric process_state.
const (
	OK         State = 0
	Recovering State = 1
	Degraded   State = 2
	Starting   State = 3
)

// Health is what /readyz goes by: heartbeats, and nothing else. It does not
// notice dead tunnels, and stands still while the process drains.
type Health struct {
	mu         sync.Mutex
	components map[string]*component
	frozen     bool
	recovery   time.Duration
	faults     *faults.Registry
	now        func() time.Time
}

type component struct {
	state State
	since time.Time
}

// NewHealth makes a Health in which a component must do well for longer than two
// heartbeat checks before it has recovered.
func NewHealth(scale Scale, f *faults.Registry) *Health {
	return &Health{components: map[string]*component{}, recovery: scale.Of(2 * HeartbeatCheck), faults: f, now: time.Now}
}

// Expect adds a component that has not started.
func (h *Health) Expect(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.components[name] == nil {
		h.components[name] = &component{state: Starting}
	}
}

// Heartbeat takes the outcome of one heartbeat of a component.
func (h *Health) Heartbeat(name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.frozen {
		return
	}
	c := h.components[name]
	if c == nil {
		c = &component{state: Starting}
		h.components[name] = c
	}
	switch {
	case err != nil:
		c.state = Degraded
	case c.state == Starting:
		c.state = OK
	case c.state == Degraded:
		c.state, c.since = Recovering, h.now()
	case c.state == Recovering && h.now().Sub(c.since) > h.recovery:
		c.state = OK
	}
}

// Freeze makes the state stand still, as it does during a graceful stop.
func (h *Health) Freeze() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frozen = true
}

// State is the worst of all components; without any it is Starting.
func (h *Health) State() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := map[State]bool{}
	for _, c := range h.components {
		seen[c.state] = true
	}
	for _, s := range []State{Degraded, Recovering, Starting} {
		if seen[s] {
			return s
		}
	}
	if len(h.components) == 0 {
		return Starting
	}
	return OK
}

// readiness is the answer of /readyz: status code and text.
func (s State) readiness() (int, string) {
	switch s {
	case OK:
		return http.StatusOK, "ok"
	case Recovering:
		return http.StatusBadRequest, "teleport is recovering from a degraded state, check logs for details"
	case Degraded:
		return http.StatusServiceUnavailable, "teleport is in a degraded state, check logs for details"
	}
	return http.StatusBadRequest, "teleport is starting and hasn't joined the cluster yet"
}

// ServeReady answers /readyz, or lies where a fault says so.
func (h *Health) ServeReady(w http.ResponseWriter, _ *http.Request) {
	state := h.State()
	if _, hit := h.faults.Active(faults.ReadyWhileDead, ""); hit {
		h.faults.Record(faults.ReadyWhileDead, "", "/readyz answered 200 while connections are refused")
		state = OK
	} else if _, hit := h.faults.Active(faults.UnreadyWhileAlive, ""); hit {
		h.faults.Record(faults.UnreadyWhileAlive, "", "/readyz answered 503 while everything works")
		state = Degraded
	}
	code, text := state.readiness()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": text})
}
