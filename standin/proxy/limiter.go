package proxy

import (
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// limiter bounds the connections that each client address has open at a time, as connection_limits does.
type limiter struct {
	most     int64
	exceeded prometheus.Counter

	mu   sync.Mutex
	open map[string]int64
}

func newLimiter(most int64, exceeded prometheus.Counter) *limiter {
	return &limiter{most: most, exceeded: exceeded, open: map[string]int64{}}
}

// take counts a connection until release; false: the address has as many as it may.
func (l *limiter) take(addr net.Addr) (release func(), ok bool) {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		host = addr.String()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most > 0 && l.open[host] >= l.most {
		l.exceeded.Inc()
		return nil, false
	}
	l.open[host]++
	return func() { l.release(host) }, true
}

func (l *limiter) release(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host]--; l.open[host] <= 0 {
		delete(l.open, host)
	}
}
