package load

import (
	"slices"

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
		o.Brief = slices.ContainsFunc(s.Mix, func(m scenarios.Weighted) bool { return m.Session.Length.IsZero() })
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
