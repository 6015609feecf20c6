package load

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/scenarios"
)

// Offers is what the streams of a plan will offer, for the history's first event.
func Offers(p *scenarios.Plan) []history.StreamOffer {
	var out []history.StreamOffer
	for _, s := range p.Streams {
		o := history.StreamOffer{Name: s.Name, Model: "open", Rate: s.PeakRate, Held: s.Held, MaxHeld: s.Arrival.MaxHeld}
		if s.Arrival.Closed != nil {
			o.Model = "closed"
		}
		o.Session, o.Behaviour = s.Mix[0].Session.Kind, s.Mix[0].Session.Behaviour
		for _, m := range s.Mix[1:] {
			if m.Session.Kind != o.Session {
				o.Session = "mix"
			}
			if m.Session.Behaviour != o.Behaviour {
				o.Behaviour = "mix"
			}
		}
		out = append(out, o)
	}
	return out
}

// spareFiles is what the rest of the program needs besides sessions: watches, canaries, history, openings that fail.
const spareFiles = 256

// Limits says which limits of this machine are too low to hold the plan's sessions; nil: none is. Each session takes
// one descriptor and one local port for each proxy.
func Limits(p *scenarios.Plan) []error {
	held := 0
	for _, s := range p.Streams {
		most := s.Held
		if s.Arrival.MaxHeld > 0 {
			most = s.Arrival.MaxHeld
		}
		held += most
	}
	var errs []error
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Cur < uint64(held+spareFiles) {
		errs = append(errs, fmt.Errorf("%d sessions need %d open files, the limit is %d: raise it with ulimit -n", held, held+spareFiles, files.Cur))
	}
	if ports := localPorts(); ports > 0 && held > ports {
		errs = append(errs, fmt.Errorf("%d sessions through one proxy would need more local ports than the %d of net.ipv4.ip_local_port_range", held, ports))
	}
	return errs
}

// localPorts is how many ports a connection may come from; 0 where the system does not tell.
func localPorts() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return 0
	}
	from, _ := strconv.Atoi(fields[0])
	to, _ := strconv.Atoi(fields[1])
	return to - from + 1
}
