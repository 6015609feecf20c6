package recorder

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/gravitational/teleport/api/types/events"
	"github.com/prometheus/client_golang/prometheus"

	"shakedown.dev/shakedown/standin/authclient"
)

// emitterBuffer is the number of events that wait for a slow auth before events are lost, as in the real program.
const emitterBuffer = 1024

// Emitter hands audit events to the auth in the background: an event that cannot be buffered or delivered is lost, counted and logged.
type Emitter struct {
	auth    authclient.Client
	log     *slog.Logger
	failed  prometheus.Counter
	emitted prometheus.Counter
	queue   chan events.AuditEvent
	pending atomic.Int64 // queued or on their way

	closed context.Context
	close  context.CancelFunc
	done   sync.WaitGroup
}

// NewEmitter starts an emitter; Close ends it.
func NewEmitter(auth authclient.Client, reg prometheus.Registerer, log *slog.Logger) *Emitter {
	e := &Emitter{
		auth: auth, log: log, queue: make(chan events.AuditEvent, emitterBuffer),
		failed:  Counter(reg, "audit_failed_emit_events", "Number of times emitting audit event failed."),
		emitted: Counter(reg, "teleport_audit_emit_events", "Number of audit events emitted"),
	}
	e.closed, e.close = context.WithCancel(context.Background())
	e.done.Go(e.forward)
	return e
}

// Emit fills in what every event needs and queues it. It never blocks.
func (e *Emitter) Emit(event events.AuditEvent) {
	complete(event, e.auth.Identity().Cluster)
	select {
	case <-e.closed.Done():
		e.lose(event, errors.New("emitter has been closed"))
		return
	default:
	}
	e.pending.Add(1)
	select {
	case e.queue <- event:
	default:
		e.pending.Add(-1)
		e.lose(event, errors.New("buffer is full: this server's connection to the auth service appears to be slow"))
	}
}

func (e *Emitter) lose(event events.AuditEvent, err error) {
	e.failed.Inc()
	e.log.Error("audit event lost", "type", event.GetType(), "err", err)
}

func (e *Emitter) forward() {
	for {
		select {
		case event := <-e.queue:
			e.send(e.closed, event)
			e.pending.Add(-1)
		case <-e.closed.Done():
			return
		}
	}
}

func (e *Emitter) send(ctx context.Context, event events.AuditEvent) {
	if err := e.auth.Emit(ctx, event); err != nil {
		e.lose(event, err)
		return
	}
	e.emitted.Inc()
}

// Flush waits until the queue has been delivered, or for the limit.
func (e *Emitter) Flush(limit time.Duration) {
	deadline := time.Now().Add(limit)
	for e.pending.Load() > 0 && e.closed.Err() == nil && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
}

// Close stops delivery; queued events are lost, as in the real program.
func (e *Emitter) Close() {
	e.close()
	e.done.Wait()
}

// complete sets what a caller may leave out: id, time, cluster.
func complete(event events.AuditEvent, cluster string) {
	if event.GetID() == "" && event.GetType() != TypePrint {
		event.SetID(uuid.NewString())
	}
	if event.GetTime().IsZero() {
		event.SetTime(time.Now().UTC().Round(time.Millisecond))
	}
	if event.GetClusterName() == "" {
		event.SetClusterName(cluster)
	}
}
