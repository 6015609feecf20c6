package history

import "time"

// ProxyStop is what stopping a proxy pod did to a session through it, measured before the load so that nothing about
// the version under test is assumed. Times count from the deletion; 0: not seen.
type ProxyStop struct {
	Pod      PodRef        `json:"pod"`
	Grace    time.Duration `json:"graceNs"`             // the pod's termination grace period
	Unready  time.Duration `json:"unreadyNs,omitempty"` // until the pod was not ready any more
	Dropped  time.Duration `json:"droppedNs,omitempty"` // until the session was cut
	Ended    time.Duration `json:"endedNs,omitempty"`   // until the container had ended
	Gone     time.Duration `json:"goneNs,omitempty"`    // until the pod object was gone
	Cut      Cut           `json:"cut,omitempty"`       // how it looked to the client
	Message  string        `json:"message,omitempty"`   // of the server to the client
	Exit     int           `json:"exit"`                // of the container; 137 is a kill after the grace period
	Signal   int           `json:"signal,omitempty"`    // that ended it, if one did
	Survived bool          `json:"survived,omitempty"`  // the session outlived the pod
	Error    string        `json:"error,omitempty"`     // why it could not be measured
}

// Kind of each payload.
func (ProxyStop) Kind() Kind { return KindProxyStop }
