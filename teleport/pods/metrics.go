package pods

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

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

// Pod scrapes a pod's first diagnostic port.
func (s *Scraper) Pod(ctx context.Context, p Pod) (Samples, error) { return s.Processes(ctx, p, 1) }

// Processes scrapes the diagnostic ports of a pod with n processes, whose ports follow each other, and adds them up.
func (s *Scraper) Processes(ctx context.Context, p Pod, n int) (Samples, error) {
	all := Samples{}
	for i := range n {
		one, err := s.URL(ctx, "http://"+net.JoinHostPort(p.IP, strconv.Itoa(firstDiagPort+i))+"/metrics")
		if err != nil {
			return nil, err
		}
		for name, v := range one {
			all[name] += v
		}
	}
	return all, nil
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
	text, err := s.cut(r)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(text)
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

// cut leaves out the lines of other metrics before they are parsed: a page of Teleport's has thousands, and parsing
// them all each second would be a load of its own.
func (s *Scraper) cut(r io.Reader) (io.Reader, error) {
	if len(s.only) == 0 {
		return r, nil
	}
	var kept bytes.Buffer
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxScrape)
	for lines.Scan() {
		if line := lines.Bytes(); s.wanted(line) {
			kept.Write(line)
			kept.WriteByte('\n')
		}
	}
	return &kept, lines.Err()
}

func (s *Scraper) wanted(line []byte) bool {
	if rest, comment := bytes.CutPrefix(line, []byte("# TYPE ")); comment {
		line = rest
	} else if len(line) > 0 && line[0] == '#' {
		return false
	}
	name := line
	if i := bytes.IndexAny(line, "{ "); i >= 0 {
		name = line[:i]
	}
	if s.only[string(name)] {
		return true
	}
	for _, part := range []string{"_count", "_sum", "_bucket"} {
		if whole, ok := bytes.CutSuffix(name, []byte(part)); ok && s.only[string(whole)] {
			return true
		}
	}
	return false
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
