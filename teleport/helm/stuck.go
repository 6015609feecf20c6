package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	ri "helm.sh/helm/v4/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodsError says which pods kept a release from becoming ready.
type PodsError struct {
	Release string
	Pods    []StuckPod
	Err     error
}

// StuckPod is a pod that does not get on.
type StuckPod struct {
	Name, Reason, Message, Hint string
	Container                   string // the one that ended, if one did
	Log                         string // its last lines
}

func (e *PodsError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "release %s does not become ready: %v", e.Release, e.Err)
	for _, p := range e.Pods {
		fmt.Fprintf(&b, "\n  pod %s: %s: %s", p.Name, p.Reason, p.Message)
		if p.Hint != "" {
			b.WriteString(" (" + p.Hint + ")")
		}
		for line := range strings.Lines(p.Log) {
			b.WriteString("\n    | " + strings.TrimSpace(line))
		}
	}
	return b.String()
}

func (e *PodsError) Unwrap() error { return e.Err }

// hopeless is how long a pod may fail to pull its image before the wait is given up: registries have hiccups, but
// an image that does not exist would be waited for until the time limit.
const hopeless = 20 * time.Second

// watched runs an installation or upgrade, ends it early when a pod is in a state it cannot leave, and explains a
// failure by the pods that do not get on.
func (c *Client) watched(ctx context.Context, verb string, r Release, f func(context.Context, *action.Configuration) (ri.Releaser, error)) (Revision, error) {
	if r.Timeout == 0 {
		r.Timeout = 5 * time.Minute
	}
	cfg, err := c.configuration()
	if err != nil {
		return Revision{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go c.giveUp(ctx, cancel)
	rel, err := f(ctx, cfg)
	if err == nil {
		return revision(rel)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	err = fmt.Errorf("%s %s: %w", verb, r.Name, err)
	looks, end := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer end()
	stuck, listErr := c.stuck(looks)
	if listErr != nil || len(stuck) == 0 {
		return Revision{}, errors.Join(err, listErr)
	}
	for i := range stuck {
		stuck[i].Log = c.lastWords(looks, stuck[i])
	}
	return Revision{}, &PodsError{Release: r.Name, Pods: stuck, Err: err}
}

// lastWords gives the last lines that a container wrote before it ended, or nothing.
func (c *Client) lastWords(ctx context.Context, p StuckPod) string {
	if p.Container == "" {
		return ""
	}
	lines := int64(5)
	for _, previous := range []bool{true, false} {
		opts := &corev1.PodLogOptions{Container: p.Container, Previous: previous, TailLines: &lines}
		if text, err := c.kube.CoreV1().Pods(c.namespace).GetLogs(p.Name, opts).DoRaw(ctx); err == nil && len(text) > 0 {
			return string(text)
		}
	}
	return ""
}

// giveUp ends the wait when a pod has not been able to get its image for some time.
func (c *Client) giveUp(ctx context.Context, cancel context.CancelCauseFunc) {
	since := map[string]time.Time{}
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			stuck, err := c.stuck(ctx)
			if err != nil {
				continue // the API server may be away for a moment; the time limit still holds
			}
			seen := map[string]time.Time{}
			for _, p := range stuck {
				if !strings.Contains(p.Reason, "Image") {
					continue
				}
				seen[p.Name] = now
				if first, ok := since[p.Name]; ok {
					seen[p.Name] = first
				}
				if now.Sub(seen[p.Name]) > hopeless || p.Reason == "ErrImageNeverPull" || p.Reason == "InvalidImageName" {
					cancel(fmt.Errorf("pod %s cannot get its image: %s: %s", p.Name, p.Reason, p.Message))
					return
				}
			}
			since = seen
		}
	}
}

// stuck lists the namespace's pods that do not get on: Helm's hooks have no label to find theirs by.
func (c *Client) stuck(ctx context.Context) ([]StuckPod, error) {
	list, err := c.kube.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []StuckPod
	for _, pod := range list.Items {
		if s, is := stuckPod(&pod); is {
			out = append(out, s)
		}
	}
	return out, nil
}

func stuckPod(pod *corev1.Pod) (StuckPod, bool) {
	s := StuckPod{Name: pod.Name}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			s.Reason, s.Message, s.Hint = c.Reason, c.Message, scheduleHint(c.Message)
			return s, true
		}
	}
	for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		w, last := c.State.Waiting, c.LastTerminationState.Terminated
		if end := c.State.Terminated; end != nil && end.ExitCode != 0 {
			s.Container, s.Reason, s.Message = c.Name, end.Reason, fmt.Sprintf("container %s ended with status %d", c.Name, end.ExitCode)
			return s, true
		}
		if c.State.Running != nil && notReady(pod, c) {
			s.Container, s.Reason, s.Message = c.Name, "NotReady", fmt.Sprintf("container %s runs and is not ready", c.Name)
			return s, true
		}
		if w == nil || w.Reason == "PodInitializing" || w.Reason == "ContainerCreating" {
			continue
		}
		s.Reason, s.Message = w.Reason, w.Message
		if strings.Contains(w.Reason, "Image") {
			s.Hint = "is " + c.Image + " the right name, and can this cluster pull it? On the embedded cluster give it with --image"
		}
		if last != nil {
			s.Container, s.Message = c.Name, fmt.Sprintf("container %s ended with status %d", c.Name, last.ExitCode)
		}
		return s, true
	}
	return s, false
}

// notReady says whether the pod waits for this container, which runs: an init container that goes on, or one of its
// own that its probes say no to.
func notReady(pod *corev1.Pod, c corev1.ContainerStatus) bool {
	own := slices.ContainsFunc(pod.Status.ContainerStatuses, func(o corev1.ContainerStatus) bool { return o.Name == c.Name })
	return pod.DeletionTimestamp == nil && (!own || !c.Ready)
}

func scheduleHint(message string) string {
	switch {
	case strings.Contains(message, "anti-affinity"):
		return "required anti-affinity needs more nodes than replicas for a rollout to move"
	case strings.Contains(message, "PersistentVolumeClaim"):
		return "the claim is not bound: has the cluster a default StorageClass?"
	}
	return ""
}
