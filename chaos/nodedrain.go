package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/drain"

	"shakedown.dev/shakedown/undo"
)

var nodeDrain = Kind{
	Name:    "nodeDrain",
	Proof:   "the node has the taint of an unschedulable node, which a controller sets, and no pod has the UID of one that was there before, DaemonSets' aside",
	Healed:  "the taint is gone, and the workloads whose pods were evicted have all replicas ready",
	Where:   "any cluster; budgets are honoured, what blocked and how long is told; data in emptyDir volumes is lost, as with --delete-emptydir-data; pods that cannot follow their volume are told",
	Example: "nodeDrain: {select: {node: {running: proxy}, count: 1}, timeout: 3m}",
	Slow:    slowPods,
	inject:  injectDrain,
}

// evictRetry is how soon a refused eviction is tried again; kubectl waits 5 s.
const evictRetry = time.Second

// draining is one drain of some nodes.
type draining struct {
	site    *Site
	nodes   []corev1.Node
	evicted []corev1.Pod
	owners  []owner
	told    []string // of each node that was blocked, or took long
	failed  error    // what was left over when the time was up
}

func injectDrain(ctx context.Context, s *Site) (Injection, error) {
	nodes, err := s.HitNodes(ctx)
	if err != nil {
		return nil, err
	}
	d := &draining{site: s, nodes: nodes}
	e := effect{site: s, settle: d.settle, healed: d.healed, detail: func() string { return strings.Join(d.told, "; ") }}
	for i := range nodes {
		if err := d.one(ctx, &nodes[i]); err != nil {
			if !s.changed() {
				return nil, err
			}
			return e, err
		}
	}
	return e, nil
}

// one drains one node. Running out of time is not an error of the injection: settle tells what is left.
func (d *draining) one(ctx context.Context, n *corev1.Node) error {
	b := newBlocks(d.site.Client)
	var said bytes.Buffer
	h := d.helper(ctx, b, &said)
	list, errs := h.GetPodsForDeletion(n.Name)
	if len(errs) > 0 {
		return fmt.Errorf("drain of %s: %w", n.Name, errors.Join(errs...))
	}
	if err := d.site.cordon(ctx, n); err != nil {
		return err
	}
	// The scheduler may have placed more before the cordon.
	if list, errs = h.GetPodsForDeletion(n.Name); len(errs) > 0 {
		return fmt.Errorf("drain of %s: %w", n.Name, errors.Join(errs...))
	}
	began := time.Now()
	if err := d.evict(ctx, h, list.Pods()); err != nil {
		if ctx.Err() != nil { // what the library says then is about its own time limit
			err = fmt.Errorf("not done after %s", seconds(time.Since(began)))
		}
		d.failed = errors.Join(d.failed, fmt.Errorf("drain of %s: %w", n.Name, err))
	}
	if blocked := b.String(); blocked != "" {
		d.told = append(d.told, fmt.Sprintf("drain of %s %s", n.Name, blocked))
	} else if took := time.Since(began); took > 10*time.Second {
		d.told = append(d.told, fmt.Sprintf("drain of %s took %s: the pods took that long to end", n.Name, seconds(took)))
	}
	return nil
}

func (d *draining) helper(ctx context.Context, b *blocks, said *bytes.Buffer) *drain.Helper {
	out := &lockedWriter{w: said}
	h := &drain.Helper{
		Ctx: ctx, Client: b.watch(), Force: d.site.Do.Args.Bool("force"), GracePeriodSeconds: -1,
		IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, EvictErrorRetryDelay: evictRetry, Out: out, ErrOut: out,
	}
	if grace := d.site.grace(); grace != nil {
		h.GracePeriodSeconds = int(*grace)
	}
	return h
}

// evict writes an intent for each pod and evicts them all at once.
func (d *draining) evict(ctx context.Context, h *drain.Helper, pods []corev1.Pod) error {
	var entries []undo.Entry
	for i := range pods {
		o, err := d.site.ownerOf(ctx, &pods[i])
		if err != nil {
			continue // a Job's, or force: nobody brings it back, and the author asked for it
		}
		d.owners = append(d.owners, o)
		e, err := d.site.intend(ctx, undo.Change{Kind: undo.PodsRemoved, What: "evict pod " + pods[i].Name, Object: o.object()})
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	d.evicted = append(d.evicted, pods...)
	err := h.DeleteOrEvictPods(pods)
	for _, e := range entries {
		err = errors.Join(err, d.site.log.Made(e, err))
	}
	return err
}

func (d *draining) settle(ctx context.Context) (string, error) {
	if d.failed != nil {
		return "", fmt.Errorf("%s%w", strings.Join(append(d.told, ""), "; "), d.failed)
	}
	return await(ctx, func(ctx context.Context) (string, error) {
		for _, n := range d.nodes {
			if err := d.site.unschedulable(ctx, n.Name, true); err != nil {
				return "", err
			}
		}
		gone, err := d.site.gone(ctx, d.evicted)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s tainted as unschedulable by the node controller; %s", names(d.nodes), gone), d.stranded(ctx)
	})
}

// strandedBound is how long the scheduler gets to say that a pod cannot follow its volume.
const strandedBound = 3 * time.Second

// stranded tells of pods that wait for a volume which only a drained node has: they stay away for as long as
// it is drained. Without claims among the evicted it does nothing.
func (d *draining) stranded(ctx context.Context) error {
	claims := func(p corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	}
	if !slices.ContainsFunc(d.evicted, claims) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, strandedBound)
	defer cancel()
	told := map[string]bool{}
	for {
		pods, err := d.site.podsIn(ctx, "")
		for _, p := range pods {
			if o, err := d.site.ownerOf(ctx, &p); err != nil || !slices.Contains(d.owners, o) || !claims(p) || told[p.Name] {
				continue
			}
			if why := unscheduled(&p); strings.Contains(strings.ToLower(why), "volume") {
				told[p.Name] = true
				d.told = append(d.told, fmt.Sprintf("pod %s waits for its volume: %s", p.Name, why))
			}
		}
		if err != nil || pause(ctx, lookEvery) != nil {
			return nil // what could be seen was told; the drain itself is proved
		}
	}
}

// unscheduled is why the scheduler finds no node for a pod; empty if it has one.
func unscheduled(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

func (d *draining) healed(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		for _, n := range d.nodes {
			if err := d.site.unschedulable(ctx, n.Name, false); err != nil {
				return "", err
			}
		}
		ready, err := d.site.allReady(ctx, d.owners)
		if err != nil {
			return "", err
		}
		return strings.TrimSuffix(names(d.nodes)+" schedulable; "+ready, "; "), nil
	})
}

// gone says that the API has none of these pods any more, by UID.
func (w World) gone(ctx context.Context, pods []corev1.Pod) (string, error) {
	all, err := w.podsIn(ctx, "")
	if err != nil {
		return "", err
	}
	there := map[types.UID]bool{}
	for _, p := range all {
		there[p.UID] = true
	}
	var left []string
	for _, p := range pods {
		if there[p.UID] {
			left = append(left, p.Name)
		}
	}
	if len(left) > 0 {
		return "", fmt.Errorf("%s still there", strings.Join(left, ", "))
	}
	return fmt.Sprintf("%d of %d pods of before are gone", len(pods), len(pods)), nil
}

func names(nodes []corev1.Node) string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return strings.Join(out, ", ")
}

// lockedWriter is for the library, which prints from several goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
