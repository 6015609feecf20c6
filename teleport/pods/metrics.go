package pods

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metric is a metric that matters, by the name Teleport gives it.
type Metric struct {
	Name    string
	Of      string // component that has it; empty: all
	Meaning string
}

// Metrics are the metrics that matter, as Teleport 13 names them: most without any prefix.
func Metrics() []Metric {
	return []Metric{
		{"server_interactive_sessions_total", "", "sessions held now, on the host that records them"},
		{"proxy_ssh_sessions_total", Proxy, "SSH sessions that go through the proxy now"},
		{"user_max_concurrent_sessions_hit_total", "", "sessions refused for a user's limit"},
		{"teleport_connect_to_node_attempts_total", Proxy, "dials to nodes"},
		{"failed_connect_to_node_attempts_total", Proxy, "dials to nodes that failed"},
		{"proxy_connection_limit_exceeded_total", Proxy, "connections refused for a limit by client address"},
		{"teleport_reverse_tunnels_connected", Proxy, "agents' tunnels that end here"},
		{"proxy_missing_ssh_tunnels", Proxy, "tunnels that agents should have here and have not"},
		{"teleport_connected_resources", Auth, "resources that keep themselves alive here"},
		{"teleport_registered_servers", Auth, "servers registered, by version"},
		{"heartbeat_connections_received_total", Auth, "heartbeats received"},
		{"heartbeats_missed_total", Auth, "heartbeats missed in the last round"},
		{"process_state", "", "0 ok, 1 recovering, 2 degraded, 3 starting"},
		{"audit_failed_emit_events", "", "audit events that were lost"},
		{"teleport_audit_emit_events", "", "audit events emitted"},
		{"teleport_incomplete_session_uploads_total", "", "recordings waiting to be completed; counted every five minutes"},
		{"backend_write_requests_total", Auth, "writes to storage"},
		{"backend_write_requests_failed_total", Auth, "writes to storage that failed"},
		{"backend_read_requests_failed_total", Auth, "reads from storage that failed"},
		{"auth_generate_requests", Auth, "certificate requests in work"},
		{"auth_generate_requests_throttled_total", Auth, "certificate requests refused for their rate"},
		{"teleport_cache_stale_events", "", "events that came too late for a cache"},
		{"go_goroutines", "", "goroutines"},
		{"process_open_fds", "", "open file descriptors"},
		{"process_resident_memory_bytes", "", "resident memory"},
		{"process_cpu_seconds_total", "", "CPU time used"},
	}
}

// Samples are the values of one scrape, series of one name summed up; of histograms and summaries the count, as
// NAME_count, and the sum, as NAME_sum.
type Samples map[string]float64

// maxScrape bounds what is read of one page.
const maxScrape = 8 << 20

// Scraper reads the diagnostic ports of pods. It is safe for use by many goroutines.
type Scraper struct {
	client *http.Client
	only   map[string]bool
}

// NewScraper makes a Scraper that connects with dial (nil: a net.Dialer) and keeps the named metrics; no names mean
// all. Connections are kept between scrapes.
func NewScraper(dial func(ctx context.Context, network, address string) (net.Conn, error), names ...string) *Scraper {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	only := map[string]bool{}
	for _, n := range names {
		only[n] = true
	}
	return &Scraper{
		client: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second}},
		only:   only,
	}
}

// Names gives the names of Metrics, for NewScraper.
func Names() []string {
	var out []string
	for _, m := range Metrics() {
		out = append(out, m.Name)
	}
	return out
}

// Pod scrapes a pod's first diagnostic port.
func (s *Scraper) Pod(ctx context.Context, p Pod) (Samples, error) {
	return s.URL(ctx, "http://"+net.JoinHostPort(p.IP, DiagPort)+"/metrics")
}

// URL scrapes a page of metrics.
func (s *Scraper) URL(ctx context.Context, url string) (Samples, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("scrape %s: %s", url, resp.Status)
	}
	samples, err := s.parse(io.LimitReader(resp.Body, maxScrape))
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", url, err)
	}
	return samples, nil
}

func (s *Scraper) parse(r io.Reader) (Samples, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, err
	}
	out := Samples{}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if len(s.only) > 0 && !s.only[name] {
			continue
		}
		for _, m := range families[name].Metric {
			out.add(name, m)
		}
	}
	return out, nil
}

func (s Samples) add(name string, m *dto.Metric) {
	switch {
	case m.Counter != nil:
		s[name] += m.Counter.GetValue()
	case m.Gauge != nil:
		s[name] += m.Gauge.GetValue()
	case m.Untyped != nil:
		s[name] += m.Untyped.GetValue()
	case m.Histogram != nil:
		s[name+"_count"] += float64(m.Histogram.GetSampleCount())
		s[name+"_sum"] += m.Histogram.GetSampleSum()
	case m.Summary != nil:
		s[name+"_count"] += float64(m.Summary.GetSampleCount())
		s[name+"_sum"] += m.Summary.GetSampleSum()
	}
}

// Readiness is what /readyz says.
type Readiness int

// The states of /readyz. While a process drains, its last state stays (it does not turn unready).
const (
	Unknown    Readiness = iota // no answer
	OK                          // 200
	Recovering                  // 400: starting or recovering
	Degraded                    // 503
)

// Readyz asks a pod for its readiness.
func (s *Scraper) Readyz(ctx context.Context, p Pod) (Readiness, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(p.IP, DiagPort)+"/readyz", nil)
	if err != nil {
		return Unknown, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return Unknown, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxScrape)); err != nil {
		return Unknown, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return OK, nil
	case http.StatusBadRequest:
		return Recovering, nil
	case http.StatusServiceUnavailable:
		return Degraded, nil
	}
	return Unknown, fmt.Errorf("readyz of %s: %s", p.Name, strings.TrimSpace(resp.Status))
}
