package watch

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/pods"
)

// History is the recorder behind a State; *history.Recorder is one.
type History interface {
	Record(history.Event)
	Now() time.Duration
	Since(time.Time) time.Duration
}

// State is what holds now. It is the recorder that everything of a run records through: it reads each event
// along before the history gets it. All methods may be called from many goroutines, and answer from memory.
type State struct {
	to History

	mu        sync.RWMutex
	seen      bool // the watch has seen everything once
	pods      map[string]pods.Pod
	lists     map[string][]pods.Pod // by component, made when asked for; "": all
	workloads map[string][]workload
	behind    map[string]map[string]history.Endpoints // component, Service
	desired   map[string]int                          // at RunStart
	api       history.APIServer                       // the last look, if Down
	apiDown   bool
	load      loadCounts
	rollout   rollouts
	serving   serving
	recovery  recovery
}

// NewState records to a history.
func NewState(to History) *State {
	return &State{
		to: to, pods: map[string]pods.Pod{}, lists: map[string][]pods.Pod{}, workloads: map[string][]workload{},
		behind: map[string]map[string]history.Endpoints{}, desired: map[string]int{},
		load: newLoadCounts(), rollout: newRollouts(), serving: newServing(), recovery: newRecovery(),
	}
}

// Now is the time since the run's start.
func (s *State) Now() time.Duration { return s.to.Now() }

// Since converts a moment of this process to the run's time.
func (s *State) Since(t time.Time) time.Duration { return s.to.Since(t) }

// Record reads an event along and hands it on.
func (s *State) Record(e history.Event) {
	if e.At == 0 {
		e.At = max(s.to.Now(), 1)
	}
	s.read(e)
	s.to.Record(e)
}

func (s *State) read(e history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch d := e.Data.(type) {
	case history.RunStart:
		s.start(d)
	case history.Endpoints:
		if s.behind[d.Component] == nil {
			s.behind[d.Component] = map[string]history.Endpoints{}
		}
		s.behind[d.Component][d.Service] = d
		s.capacity(e.At, d.Component)
	case history.PodChange:
		s.serving.pod(d)
		s.capacity(e.At, d.Pod.Component)
	case history.Replicas:
		s.serving.replicas[d.Component] = d
		s.capacity(e.At, d.Component)
	case history.APIServer:
		s.api, s.apiDown = d, !d.Up
	case history.Probe:
		s.serving.probe(e.At, d)
		s.capacity(e.At-d.Took, d.Pod.Component)
	case history.SessionOpened:
		s.load.opened(d)
		s.recovery.opened(d.Type, d.Due, d.Open-d.Due)
	case history.Session:
		s.load.ended(d)
	case history.Entry:
		s.rollout.entry(e.At, d)
		s.recovery.entry(e, d)
	case history.Fault:
		s.recovery.fault(e.At, d)
	case history.Rollout:
		s.rollout.read(e.At, d)
		s.recovery.rollout(e.At, d)
	}
}

func (s *State) start(d history.RunStart) {
	for c, n := range d.Desired {
		s.desired[c] = n
	}
	s.serving.interval = cmp.Or(d.Bounds.Probe, time.Second)
	s.recovery.components(slices.Collect(maps.Keys(d.Desired)))
}

// synced tells that everything was seen once.
func (s *State) synced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = true
}

// outage is since when the API server does not answer, if that is so.
func (s *State) outage() (since time.Duration, down bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.api.Since, s.apiDown
}

func (s *State) setPod(p pods.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[p.UID] = p
	s.lists = map[string][]pods.Pod{}
}

func (s *State) dropPod(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
	s.lists = map[string][]pods.Pod{}
}

func (s *State) setWorkloads(at time.Duration, component string, all []workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workloads[component] = all
	for _, l := range all {
		s.rollout.revision(at, l)
	}
}

// List gives the pods of a component that are there, terminating ones too, oldest first; an empty component
// means all.
func (s *State) List(component string) []pods.Pod {
	s.mu.RLock()
	list, ok := s.lists[component]
	s.mu.RUnlock()
	if !ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		list = s.list(component)
	}
	return slices.Clone(list)
}

// list is List's own slice, which is never changed once it is made.
func (s *State) list(component string) []pods.Pod {
	if list, ok := s.lists[component]; ok {
		return list
	}
	var out []pods.Pod
	for _, p := range s.pods {
		if component == "" || p.Component == component {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b pods.Pod) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) })
	s.lists[component] = out
	return out
}

// Proxies are the proxy pods that run and have an address, ready or not, terminating or not.
func (s *State) Proxies() []pods.Pod { return s.Running(pods.Proxy) }

// Running are the pods of a component that run and have an address, ready or not, terminating or not.
func (s *State) Running(component string) []pods.Pod {
	return slices.DeleteFunc(s.List(component), func(p pods.Pod) bool { return p.IP == "" || p.Phase != corev1.PodRunning })
}

// Pod finds a pod that is there.
func (s *State) Pod(uid string) (pods.Pod, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, ok := s.pods[uid]
	return p, ok
}

// Replicas are the counts of a component's workloads, as their controllers give them.
func (s *State) Replicas(component string) (history.Replicas, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := s.workloads[component]
	return replicasOf(component, all), len(all) > 0
}

// Desired are the replicas of each component now.
func (s *State) Desired() map[string]int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := map[string]int{}
	for c, all := range s.workloads {
		if len(all) > 0 {
			out[c] = replicasOf(c, all).Desired
		}
	}
	return out
}
