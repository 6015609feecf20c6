package scenarios

import "slices"

// The values of teleport.probe.
const (
	ProbeAuto   = "auto"
	ProbeAlways = "always"
	ProbeNever  = "never"
)

// replacing are the actions that replace pods of what they are told to, or of the whole release.
var replacing = []string{"helmUpgrade", "helmRollback", "restart", "scale"}

// ProbesStop says whether the run is to measure first what a stopped proxy does to its sessions. It costs a proxy's
// time to stop, so that a run that ends no proxy does without.
func (p *Plan) ProbesStop() bool {
	switch p.Teleport.Probe {
	case ProbeAlways:
		return true
	case ProbeAuto:
		return slices.ContainsFunc(p.Timeline, stopsProxies)
	}
	return false
}

func stopsProxies(s Step) bool {
	if s.Do == nil {
		return false
	}
	if slices.Contains(replacing, s.Do.Action) {
		component := s.Do.Args.String("component")
		return component == "" || component == "proxy"
	}
	for _, sel := range s.Do.Selects {
		switch {
		case sel == nil || !s.Fault:
		case sel.Component == "proxy" && (s.Do.Action == "podDelete" || s.Do.Action == "podEvict"):
			return true
		case sel.Node != nil && sel.Node.Running == "proxy" && (s.Do.Action == "nodeDrain" || s.Do.Action == "nodePoolUpdate" || s.Do.Action == "nodeTaint"):
			return true
		}
	}
	return false
}
