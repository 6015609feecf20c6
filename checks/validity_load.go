package checks

import (
	"fmt"
	"strings"
	"time"

	"shakedown.dev/shakedown/history"
)

func (m *Measures) offeredShare() float64 { return orDefault(m.Start.Bounds.Offered, 0.95) }

// loadOffered: each stream was begun as planned before the first change and, where it is to hold a
// number of sessions, held it. Sessions the system lost are its own matter and count as offered.
func loadOffered(m *Measures) (bool, string) {
	if len(m.Start.Streams) == 0 {
		return true, "no load was planned"
	}
	until := m.l.firstChange()
	if until == never {
		until = m.l.measured
	}
	var bad, good []string
	for _, s := range m.Start.Streams {
		ok, detail := m.streamOffered(s, until)
		if ok {
			good = append(good, detail)
		} else {
			bad = append(bad, detail)
		}
	}
	if len(bad) > 0 {
		return false, strings.Join(bad, "; ")
	}
	return true, strings.Join(good, "; ")
}

func (m *Measures) streamOffered(s history.StreamOffer, until time.Duration) (bool, string) {
	var last streamSample
	held, found := 0, false
	for _, x := range m.l.streams[s.Name] {
		if x.at <= until {
			last, found = x, true
			held = max(held, x.Held)
		}
	}
	if !found || last.Due == 0 {
		return false, s.Name + ": nothing was offered before the first change"
	}
	meant := last.Due - min(last.Capped, last.Due)
	if share := float64(last.Started+justDue) / float64(max(meant, 1)); share < m.offeredShare() {
		return false, fmt.Sprintf("%s: %d of %d sessions due were begun (%.0f %% are needed)", s.Name, last.Started, meant, 100*m.offeredShare())
	}
	if want := s.Held; want > 0 && s.Model == "closed" {
		lost := m.lostBefore(s.Name, until)
		how := "held"
		if s.Brief {
			how, held = "opened", int(last.Opened) // each that ended made room for another
		}
		if float64(held+lost) < m.offeredShare()*float64(want) {
			return false, fmt.Sprintf("%s: %s at most %d of %d expected before the first change", s.Name, how, held, want)
		}
		return true, fmt.Sprintf("%s: %s %d of %d", s.Name, how, held, want)
	}
	return true, fmt.Sprintf("%s: %d of %d begun, %d held", s.Name, last.Started, meant, held)
}

// justDue allows for the session that was due while the sample was taken.
const justDue = 1

func (m *Measures) lostBefore(stream string, until time.Duration) int {
	id, n := m.l.strings.id(stream), 0
	for i := range m.l.lost {
		if s := &m.l.sessions[m.l.lost[i].session]; s.stream == id && s.end <= until {
			n++
		}
	}
	return n
}

// loadKept: over the whole run the generator itself failed to start or keep hardly any session.
func loadKept(m *Measures) (bool, string) {
	if m.All.Offered == 0 {
		return len(m.Start.Streams) == 0, "no session was due"
	}
	missed := 0
	for _, samples := range m.l.streams {
		missed += int(samples[len(samples)-1].Missed)
	}
	missed = max(missed, m.All.Ours) // the same sessions, counted twice over
	share := 1 - float64(missed)/float64(m.All.Offered)
	detail := fmt.Sprintf("%d of %d sessions due were the generator's own failure", missed, m.All.Offered)
	return share >= m.offeredShare(), detail
}

// scheduleKept: p99 of how late sessions began.
func scheduleKept(m *Measures) (bool, string) {
	bound := orDefault(m.Start.Bounds.LateP99, 50*time.Millisecond)
	h := newLatencies()
	for i := range m.l.sessions {
		if s := &m.l.sessions[i]; s.start > 0 {
			h.add(s.start - s.due)
		}
	}
	if h.h.TotalCount() == 0 {
		return len(m.Start.Streams) == 0, "no session was begun"
	}
	p99 := h.quantile(99)
	return p99 <= bound, fmt.Sprintf("sessions began %s late at p99, %s is allowed", p99.Round(10*time.Microsecond), bound)
}

// cpuWindow is over how many samples, one a second, the generator's CPU is averaged: a single busy
// second delays nobody, five do.
const cpuWindow = 5

func generatorCPU(m *Measures) (bool, string) {
	bound := orDefault(m.Start.Bounds.CPU, 0.8)
	load := span{max(m.l.loadBegan, 0), m.l.measured + 1}
	var samples []float64
	for _, g := range m.l.generator {
		if load.contains(g.at) {
			samples = append(samples, g.cpu)
		}
	}
	if len(samples) == 0 {
		return len(m.Start.Streams) == 0, "the generator's CPU was not sampled"
	}
	worst := worstMean(samples, cpuWindow)
	return worst < bound, fmt.Sprintf("at most %.0f %% over %d s, %.0f %% is the limit", 100*worst, cpuWindow, 100*bound)
}

// worstMean is the largest mean of n samples in a row, or of all where there are fewer.
func worstMean(samples []float64, n int) float64 {
	n = min(n, len(samples))
	worst, sum := 0.0, 0.0
	for i, s := range samples {
		sum += s
		if i >= n {
			sum -= samples[i-n]
		}
		if i >= n-1 {
			worst = max(worst, sum/float64(n))
		}
	}
	return worst
}
