package process

import (
	"fmt"
	"time"
)

// StopRule says what a signal does to the process.
type StopRule struct {
	Graceful bool          // drain first; false: close at once
	Limit    time.Duration // close after this long; 0: wait for ever
	Restart  bool          // start a successor with the listeners, then drain (HUP)
}

// Behaviour is what differs between the versions that the stand-in can be like.
// Where each value was read is said in docs/standin.md.
type Behaviour struct {
	Name    string
	Version string // as in banners, /webapi/ping and `version`

	Term, Int, Quit, Hup StopRule

	// ReconnectOnDrain: a draining proxy tells its agents to connect elsewhere.
	ReconnectOnDrain bool
	// ReconnectBeforeClose: it tells them before its listeners are closed.
	ReconnectBeforeClose bool
	// DeleteHeartbeatOnDrain: a draining proxy removes itself from the list.
	DeleteHeartbeatOnDrain bool
	// KubeExecHoldsDrain: an open exec stream keeps a draining process alive.
	KubeExecHoldsDrain bool
	// KubeEmitterClosedFirst: audit events of draining exec sessions are lost.
	KubeEmitterClosedFirst bool
	// UploaderStopsOnDrain: recordings that end during a drain stay on disk.
	UploaderStopsOnDrain bool
	// CompleterGrace: an unfinished upload is completed only after this age,
	// counted from when its tracker is gone; 0: at once.
	CompleterGrace time.Duration
	// StrictKeys: a configuration key that nobody knows is an error.
	StrictKeys bool
}

// Behaviours lists the versions that the stand-in can be like, oldest first.
func Behaviours() []Behaviour {
	old := Behaviour{
		Name: "13-dev", Version: "13.0.0-standin",
		Quit: StopRule{Graceful: true}, Hup: StopRule{Graceful: true, Restart: true},
		ReconnectOnDrain: true, KubeEmitterClosedFirst: true, UploaderStopsOnDrain: true,
		StrictKeys: true,
	}
	mid := old
	mid.Name, mid.Version = "14", "14.0.0-standin"
	mid.Term = StopRule{Graceful: true, Limit: 3 * time.Second}
	mid.Int = mid.Term
	mid.DeleteHeartbeatOnDrain, mid.ReconnectBeforeClose = true, true
	mid.StrictKeys = false
	late := mid
	late.Name, late.Version = "17", "17.0.0-standin"
	late.Term = StopRule{Graceful: true, Limit: 5 * time.Second}
	late.Int = late.Term
	late.Quit = StopRule{Graceful: true, Limit: 30 * time.Hour}
	late.Hup = StopRule{Graceful: true, Limit: 30 * time.Hour, Restart: true}
	late.KubeExecHoldsDrain, late.KubeEmitterClosedFirst = true, false
	late.CompleterGrace = 24 * time.Hour
	return []Behaviour{old, mid, late}
}

// BehaviourByName returns the behaviour called name; the empty name is the
// first. An unknown name is an error that lists those there are.
func BehaviourByName(name string) (Behaviour, error) {
	all := Behaviours()
	if name == "" {
		return all[0], nil
	}
	known := ""
	for _, b := range all {
		if b.Name == name {
			return b, nil
		}
		known += " " + b.Name
	}
	return Behaviour{}, fmt.Errorf("cannot behave as %q, known are%s", name, known)
}
