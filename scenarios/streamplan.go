package scenarios

import (
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// StreamPlan is a stream with the seed that all its sessions come from.
//
// Arrival times are one sequence, drawn from Seed. Session n is drawn from
// Seed and n alone, so it is the same whatever the others do, and it can be
// looked up again from its number.
type StreamPlan struct {
	Stream
	Seed uint64 `json:"seed"`
	// PeakRate is the highest rate of the open model, sessions per second.
	PeakRate float64 `json:"peakRate,omitempty"`
	// Held is how many sessions are held once the load is steady: as written in
	// the closed model, rate × mean length in the open one, capped by MaxHeld;
	// where an arrival has several channels, so many times that.
	Held int `json:"held"`
}

func newStreamPlan(s Stream, seed uint64) StreamPlan {
	p := StreamPlan{Stream: s, Seed: seed}
	if s.Arrival.Closed != nil {
		p.Held = int(math.Round(float64(s.Arrival.Closed.Held) * s.perArrival()))
		return p
	}
	p.PeakRate = s.Arrival.Open.peak()
	last := s.Arrival.Open.Legs[len(s.Arrival.Open.Legs)-1].To
	arrivals := last * s.meanLength().Seconds()
	if s.Arrival.MaxHeld > 0 {
		arrivals = min(arrivals, float64(s.Arrival.MaxHeld))
	}
	p.Held = int(math.Round(arrivals * s.perArrival()))
	return p
}

// Connections is how many are expected to be open at once at the most, each
// with one session or several channels.
func (s Stream) Connections() int {
	if s.Arrival.Closed != nil {
		return s.Arrival.Closed.Held
	}
	n := int(math.Ceil(s.Arrival.Open.peak() * s.meanLength().Seconds()))
	if s.Arrival.MaxHeld > 0 {
		n = min(n, s.Arrival.MaxHeld)
	}
	return n
}

// perArrival is how many sessions come with an arrival, on average.
func (s Stream) perArrival() float64 {
	var sum, weights float64
	for _, m := range s.Mix {
		sum += float64(m.Weight * max(m.Session.Channels, 1))
		weights += float64(m.Weight)
	}
	return sum / weights
}

func (s Stream) meanLength() time.Duration {
	var sum, weights float64
	for _, m := range s.Mix {
		sum += float64(m.Weight) * float64(m.Session.Length.Average())
		weights += float64(m.Weight)
	}
	return time.Duration(sum / weights)
}

// Drawn is one session of a stream with its choices made.
type Drawn struct {
	N       uint64 // from 1
	Session Session
	Length  time.Duration // how long it is held; 0 where its behaviour has no length
	// Agent picks the node: index of it is int(Agent × number of agents), 0 ≤ Agent < 1.
	Agent float64
	User  int    // 0 .. users−1
	Seed  uint64 // for what it draws while it runs: pace, content
}

// Session draws session n of the stream.
func (p StreamPlan) Session(n uint64, users int) Drawn {
	rng := rand.New(rand.NewPCG(p.Seed, n))
	d := Drawn{N: n, Session: p.pick(rng)}
	d.Length = d.Session.Length.Draw(rng)
	d.Agent = rng.Float64()
	d.User = rng.IntN(max(users, 1))
	d.Seed = rng.Uint64()
	return d
}

// Think is how long session n waits, in the closed model, after the end of the one that it replaces. It comes from a
// sequence of its own, so that what sessions draw does not depend on it.
func (p StreamPlan) Think(n uint64) time.Duration {
	if p.Arrival.Closed == nil || p.Arrival.Closed.Think.IsZero() {
		return 0
	}
	return p.Arrival.Closed.Think.Draw(rand.New(rand.NewPCG(^p.Seed, n)))
}

func (p StreamPlan) pick(rng *rand.Rand) Session {
	total := 0
	for _, m := range p.Mix {
		total += m.Weight
	}
	at := rng.IntN(total)
	for _, m := range p.Mix {
		if at -= m.Weight; at < 0 {
			return m.Session
		}
	}
	panic("unreachable: the weights add up to total")
}

// Pace makes the generator for the pauses of a session.
func (d Drawn) Pace() *rand.Rand { return rand.New(rand.NewPCG(d.Seed, 1)) }

// Arrivals gives the number and the due time of each session, counted from
// the timeline's start, in order. The open model may go on without end; the
// closed model gives the first Held, and each later one is due when one has
// ended and its Think has passed.
func (p StreamPlan) Arrivals() iter.Seq2[uint64, time.Duration] {
	return func(yield func(uint64, time.Duration) bool) {
		var n uint64
		due := p.dues()
		for at := range due {
			if n++; p.For > 0 && at >= p.For.Duration() || !yield(n, p.Start.Duration()+at) {
				return
			}
		}
	}
}

func (p StreamPlan) dues() iter.Seq[time.Duration] {
	if c := p.Arrival.Closed; c != nil {
		return func(yield func(time.Duration) bool) {
			for i := range c.Held {
				if !yield(c.Over.Duration() * time.Duration(i) / time.Duration(c.Held)) {
					return
				}
			}
		}
	}
	// No session has number 0, so this stream of numbers is the arrivals' own.
	return p.Arrival.Open.dues(rand.New(rand.NewPCG(p.Seed, 0)))
}

// dues walks the rate curve: each arrival comes when the area under it since
// the last has grown by a gap, 1 for constant arrivals, exponential with mean
// 1 for Poisson arrivals (time rescaling, exact for rates that change).
func (o *Open) dues(rng *rand.Rand) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		leg, begin, at := 0, 0.0, 0.0 // seconds: the leg's begin, where we stand
		for {
			gap := 1.0
			if o.Distribution == "poisson" {
				gap = -math.Log(1 - rng.Float64())
			}
			for {
				if leg >= len(o.Legs) {
					return
				}
				step, area := o.Legs[leg].reach(at-begin, gap)
				if step >= 0 {
					at += step
					break
				}
				if o.Legs[leg].For == 0 {
					return // rate 0 without end
				}
				gap -= area
				begin += o.Legs[leg].For.Duration().Seconds()
				at, leg = begin, leg+1
			}
			if at > float64(math.MaxInt64)/2e9 || !yield(time.Duration(at*1e9)) {
				return
			}
		}
	}
}

// reach gives how long from t into the leg it takes until the area under the
// rate is gap; or −1 and the area that is left, if the leg ends before.
func (l Leg) reach(t, gap float64) (step, area float64) {
	length := l.For.Duration().Seconds()
	slope := 0.0
	if length > 0 {
		slope = (l.To - l.From) / length
	}
	rate := l.From + slope*t
	if left := length - t; length > 0 {
		area = rate*left + slope*left*left/2
		if area < gap-1e-9 {
			return -1, area
		}
	}
	root := rate*rate + 2*slope*gap
	if root < 0 || rate+math.Sqrt(root) <= 0 {
		return -1, area
	}
	return 2 * gap / (rate + math.Sqrt(root)), area
}
