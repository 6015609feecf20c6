package watch

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/pods"
)

// evictions are the reasons of the condition DisruptionTarget by which a pod was evicted. DeletionByPodGC is
// none: those pods' nodes are gone. See https://kubernetes.io/docs/concepts/workloads/pods/disruptions/.
var evictions = []string{"EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager", "TerminationByKubelet"}

// disruption is the condition that says why a pod is to end; zero: there is none.
func disruption(p *corev1.Pod) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return corev1.PodCondition{}
}

// eviction is by what a pod was evicted; empty: it was not.
func eviction(p *corev1.Pod) (reason, detail string) {
	if c := disruption(p); slices.Contains(evictions, c.Reason) {
		return c.Reason, c.Message
	}
	if p.Status.Reason == "Evicted" { // a kubelet short of something
		return p.Status.Reason, p.Status.Message
	}
	return "", ""
}

// starting are reasons to wait that every container has for a moment.
var starting = []string{"", "ContainerCreating", "PodInitializing"}

// stuck is why a pod does not come up; empty: it does.
func stuck(p *corev1.Pod) (reason, detail string) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason, c.Message
		}
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && !slices.Contains(starting, w.Reason) {
			return w.Reason, "container " + s.Name + ": " + w.Message
		}
	}
	return "", ""
}

func unreadyReason(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Reason
		}
	}
	return ""
}

// version is the program's, by the chart's label, else the tag of the first container's image.
func version(p *corev1.Pod, t pods.Pod) string {
	if t.Version != "" || len(p.Spec.Containers) == 0 {
		return t.Version
	}
	image := p.Spec.Containers[0].Image
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return image[i+1:]
	}
	return ""
}

// containerEnd is a container's end with what tells it from the container's other ends.
type containerEnd struct {
	key string
	end history.ContainerEnd
}

// containerEnds are all ends that a pod's status shows: of this run of each container, and of the one before.
func containerEnds(p *corev1.Pod) (out []containerEnd) {
	add := func(s corev1.ContainerStatus, init bool, t *corev1.ContainerStateTerminated, restarts int32) {
		if t == nil {
			return
		}
		out = append(out, containerEnd{
			key: fmt.Sprintf("%s/%s/%d", s.Name, t.ContainerID, t.FinishedAt.Unix()),
			end: history.ContainerEnd{
				Container: s.Name, Init: init, Exit: int(t.ExitCode), Signal: signalOf(t), Reason: t.Reason,
				Started: t.StartedAt.Time, Finished: t.FinishedAt.Time, Restarts: int(restarts),
			},
		})
	}
	for i, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, s := range statuses {
			add(s, i == 0, s.LastTerminationState.Terminated, max(s.RestartCount-1, 0))
			add(s, i == 0, s.State.Terminated, s.RestartCount)
		}
	}
	return out
}

// signalOf is the signal by which a container ended. Most runtimes only tell 128 and the signal's number
// as exit status, which is what a shell does too: that is left to the reader, but for SIGKILL, which no
// program exits with by itself.
func signalOf(t *corev1.ContainerStateTerminated) int {
	if t.Signal == 0 && t.ExitCode == 137 {
		return 9
	}
	return int(t.Signal)
}
