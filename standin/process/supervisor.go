package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"shakedown.dev/shakedown/standin/faults"
)

// Supervisor holds the running services and stops them by the behaviour's rules.
type Supervisor struct {
	Behaviour Behaviour
	Faults    *faults.Registry
	Health    *Health
	Log       *slog.Logger

	mu       sync.Mutex
	services []named
	stopping bool
}

type named struct {
	name string
	Service
}

// Start starts a service and keeps it, unless the process stops already.
func (s *Supervisor) Start(ctx context.Context, name string, svc Service) error {
	s.mu.Lock()
	stopping := s.stopping
	s.mu.Unlock()
	if stopping {
		return errors.Join(fmt.Errorf("start %s: the process is stopping", name), svc.Close())
	}
	if err := svc.Start(ctx); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", name, err), svc.Close())
	}
	s.mu.Lock()
	s.services = append(s.services, named{name, svc})
	s.mu.Unlock()
	s.Log.Info("Service "+name+" is starting.", "component", name, "version", s.Behaviour.Version)
	return nil
}

// Stop stops every service by rule and returns when all are closed. A graceful
// stop whose time is over, or whose ctx ends, becomes a close. Under the fault
// never-drain it returns only when ctx ends.
func (s *Supervisor) Stop(ctx context.Context, rule StopRule) error {
	s.mu.Lock()
	s.stopping = true
	services := append([]named(nil), s.services...)
	s.mu.Unlock()
	if _, hit := s.Faults.Active(faults.NeverDrain, ""); hit {
		s.Faults.Record(faults.NeverDrain, "", "the process was told to stop and does not")
		s.Health.Freeze()
		<-ctx.Done()
		return s.close(services)
	}
	if !rule.Graceful {
		return s.close(services)
	}
	s.Health.Freeze()
	if rule.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rule.Limit)
		defer cancel()
	}
	err := s.each(services, func(n named) error {
		started := time.Now()
		err := n.Drain(ctx)
		s.Log.Info("Service "+n.name+" has drained.", "component", n.name, "took", time.Since(started).Round(time.Millisecond).String(), "error", err)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return nil // its time is over; it is closed now
		}
		return err
	})
	return errors.Join(err, s.close(services))
}

func (s *Supervisor) close(services []named) error {
	return s.each(services, func(n named) error { return n.Close() })
}

// each calls f for every service at once, as the real services stop on their own.
func (s *Supervisor) each(services []named, f func(named) error) error {
	errs := make([]error, len(services))
	var wg sync.WaitGroup
	for i, n := range services {
		wg.Go(func() {
			if err := f(n); err != nil {
				errs[i] = fmt.Errorf("stop %s: %w", n.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
