package history

import (
	"bytes"
	"io"
	"syscall"
	"testing"
	"time"
)

// busy is what a run of many sessions writes most: 1 ledger record, 1 opening,
// 2 probes, 1 metrics sample.
func busy() []Event {
	proxy := PodRef{Name: "teleport-proxy-7d9c5b8f4-x2x9z", UID: "0b9f4a57-8b5e-4c57-a0a7-7f2f4b6c1a11", Component: "proxy", Node: "node2", Revision: "7d9c5b8f4"}
	agent := Agent{UUID: "aaaaaaaa-8b5e-4c57-a0a7-7f2f4b6c1a11", Host: "agent-3-05", Pod: proxy}
	session := Session{
		ID: "terminals/12345", Stream: "terminals", Type: "ssh", Behaviour: "interactive", User: "load-3",
		Due: 1e11, Start: 1e11 + 1e5, Open: 1e11 + 1e8, End: 16e10, Want: 6e10,
		Phases: []PhaseTime{{PhaseConnect, 1e6}, {PhaseTLS, 5e6}, {PhaseSSHProxy, 9e6}, {PhaseRoute, 4e6}, {PhaseSSHNode, 9e6}, {PhaseShell, 3e6}},
		Proxy:  proxy, ProxyHow: "dialled", Agent: agent, ServerSession: "bbbbbbbb-8b5e-4c57-a0a7-7f2f4b6c1a11", Recorded: true,
		Lines: Lines{Token: "k3j9x", Sent: 60, Acked: 60, Ranges: [][2]uint64{{1, 60}}, Sum: 1 << 31}, Class: Clean,
	}
	return []Event{
		{Subject: session.ID, Outcome: OK, Due: 1e11, Data: session},
		{Subject: session.ID, Due: 1e11, Data: SessionOpened{ID: session.ID, Stream: "terminals", Due: 1e11, Start: 1e11, Open: 1e11, Proxy: proxy, Agent: agent}},
		{Subject: proxy.Name, Outcome: OK, Data: Probe{Pod: proxy, Took: 3e7}},
		{Subject: proxy.Name, Outcome: OK, Data: Probe{Pod: proxy, Took: 4e7}},
		{Subject: proxy.Name, Data: Metrics{Pod: proxy, Values: map[string]float64{"process_resident_memory_bytes": 1.5e8, "go_goroutines": 5120, "teleport_connected_sessions": 100}}},
	}
}

func BenchmarkRecord(b *testing.B) {
	r := NewRecorder(io.Discard, Options{Patience: time.Hour})
	events := busy()
	b.ReportAllocs()
	before := processorTime(b)
	for i := 0; b.Loop(); i++ {
		r.Record(events[i%len(events)])
	}
	if err := r.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	// Of all that is done for an event: encoding, compressing, writing, collecting garbage.
	each := (processorTime(b) - before).Seconds() / float64(b.N)
	b.ReportMetric(100*5000*each, "%core-at-5000/s")
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkRead(b *testing.B) {
	var file bytes.Buffer
	var all []Event
	const n = 100_000
	for i := range n {
		all = append(all, busy()[i%5])
	}
	if err := Write(&file, all); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(file.Len())/n, "bytes/event")
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(bytes.NewReader(file.Bytes()))
		for range r.Events() {
		}
		if !r.Status().Whole() {
			b.Fatal(r.Status())
		}
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
