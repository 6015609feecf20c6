package checks

import (
	"fmt"
	"strings"

	"shakedown.dev/shakedown/history"
)

// ProxyStop is what stopping a proxy before the load did to a session through it. Times are seconds from the
// deletion; absent: not seen.
type ProxyStop struct {
	Pod      string   `json:"pod"`
	Grace    float64  `json:"graceSeconds"`
	Dropped  *float64 `json:"droppedSeconds,omitempty"`
	Ended    *float64 `json:"endedSeconds,omitempty"`
	Gone     *float64 `json:"goneSeconds,omitempty"`
	Cut      string   `json:"cut,omitempty"`
	Message  string   `json:"message,omitempty"`
	Exit     int      `json:"exit"`
	Survived bool     `json:"survived,omitempty"` // the session outlived the pod
	Error    string   `json:"error,omitempty"`    // why it could not be measured
}

func (l *ledger) addProxyStop(d history.ProxyStop) {
	s := ProxyStop{Pod: d.Pod.Name, Grace: inSeconds(d.Grace), Cut: string(d.Cut), Message: d.Message, Exit: d.Exit, Survived: d.Survived, Error: d.Error}
	if d.Dropped > 0 {
		v := inSeconds(d.Dropped)
		s.Dropped = &v
	}
	if d.Ended > 0 {
		v := inSeconds(d.Ended)
		s.Ended = &v
	}
	if d.Gone > 0 {
		v := inSeconds(d.Gone)
		s.Gone = &v
	}
	l.proxyStop = &s
}

// String says it in one line.
func (s ProxyStop) String() string {
	if s.Error != "" {
		return "could not be measured: " + s.Error
	}
	var parts []string
	switch {
	case s.Survived:
		parts = append(parts, "its session outlived it")
	case s.Dropped != nil:
		cut := ""
		if s.Cut != "" {
			cut = " (" + s.Cut + ")"
		}
		parts = append(parts, fmt.Sprintf("its session was cut after %.1f s%s", *s.Dropped, cut))
	default:
		parts = append(parts, "the end of its session was not seen")
	}
	if s.Ended != nil {
		parts = append(parts, fmt.Sprintf("the process ended after %.1f s with %d", *s.Ended, s.Exit))
	}
	if s.Gone != nil {
		parts = append(parts, fmt.Sprintf("the pod was gone after %.1f of at most %.0f s", *s.Gone, s.Grace))
	}
	if s.Message != "" {
		parts = append(parts, "the server said: "+s.Message)
	}
	return strings.Join(parts, ", ")
}
