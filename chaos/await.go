package chaos

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// lookEvery is how often a proof is looked for. A watch would see more, and break where it is needed:
// when the API server is slow or away.
const lookEvery = 250 * time.Millisecond

// lookBound is how long one look may take; it may go on for that long after ctx has ended.
const lookBound = 5 * time.Second

// errOver is found with errors.Is: what is waited for cannot come any more.
var errOver = errors.New("it is over")

// await looks until look has no complaint, and returns what it saw. At ctx's end it returns the last
// complaint and how long it waited. A look that has begun is not cut short: what it would say then is
// about the time and not about the system.
func await(ctx context.Context, look func(context.Context) (string, error)) (string, error) {
	began := time.Now()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		saw, err := lookOnce(ctx, look)
		if err == nil || errors.Is(err, errOver) {
			return saw, err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%w (waited %s, %w)", err, seconds(time.Since(began)), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func lookOnce(ctx context.Context, look func(context.Context) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookBound)
	defer cancel()
	return look(ctx)
}

// pause lets time pass, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// seconds is a duration as people say it: 0.3 s, 31 s.
func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// count is "1 packet" or "3 packets".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}

// hash is eight characters that tell one text from another.
func hash(text string) string {
	h := fnv.New32a()
	h.Write([]byte(text))
	return fmt.Sprintf("%08x", h.Sum32())
}
