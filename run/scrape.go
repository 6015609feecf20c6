package run

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/history/metrics"
	"shakedown.dev/shakedown/run/watch"
	"shakedown.dev/shakedown/teleport/pods"
)

// How often pods are scraped, and how many pages a second at most: beyond that they come by more seldom.
const (
	scrapeInterval = time.Second
	scrapesASecond = 24
	scrapeTimeout  = 900 * time.Millisecond
	scrapesAtOnce  = 8
)

// scraper writes what the pods say of themselves on their diagnostic ports into the history, so that the last words
// of one that dies are kept.
type scraper struct {
	state  *watch.State
	page   *pods.Scraper
	perPod int // processes of an agent's pod

	mu     sync.Mutex
	silent map[string]bool // by UID: did not answer last time, which is told once
}

// scrape scrapes until the function that it returns is called.
func (t *trial) scrape(ctx context.Context) (stop func()) {
	s := &scraper{
		state: t.state, page: pods.NewScraper(t.cluster.DialContext, metrics.Names()...),
		perPod: max(t.plan.Teleport.Agents.PerPod, 1), silent: map[string]bool{},
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { s.run(ctx) })
	return func() { cancel(); done.Wait() }
}

// run scrapes until ctx ends.
func (s *scraper) run(ctx context.Context) {
	for ctx.Err() == nil {
		due := time.Now()
		pages := s.round(ctx)
		pause := max(scrapeInterval, time.Duration(pages)*time.Second/scrapesASecond) - time.Since(due)
		select {
		case <-ctx.Done():
		case <-time.After(max(pause, scrapeInterval/4)):
		}
	}
}

// round scrapes each pod once and tells how many pages that were.
func (s *scraper) round(ctx context.Context) (pages int) {
	gate := make(chan struct{}, scrapesAtOnce)
	var wg sync.WaitGroup
	for _, component := range []string{pods.Auth, pods.Proxy, pods.Agent} {
		for _, p := range s.state.Running(component) {
			n := 1
			if component == pods.Agent {
				if strings.HasPrefix(p.Name, controlRelease+"-") {
					continue // beside Teleport
				}
				n = s.perPod
			}
			pages += n
			gate <- struct{}{}
			wg.Go(func() {
				s.scrape(ctx, p, n)
				<-gate
			})
		}
	}
	wg.Wait()
	return pages
}

func (s *scraper) scrape(ctx context.Context, p pods.Pod, n int) {
	within, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	values, err := s.page.Processes(within, p, n)
	if ctx.Err() != nil {
		return
	}
	m := history.Metrics{Pod: p.Ref(), Values: maps.Clone(values)}
	if err != nil {
		m.Error, m.Values = err.Error(), nil
	}
	if s.news(p.UID, err != nil) {
		s.state.Record(history.Event{Subject: p.Name, Data: m})
	}
}

// news: a pod that goes on not answering is told of once.
func (s *scraper) news(uid string, failed bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := failed && s.silent[uid]
	s.silent[uid] = failed
	return !again
}
