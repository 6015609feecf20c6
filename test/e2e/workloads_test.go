package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestE2EDeploymentRollsOut(t *testing.T) {
	t.Parallel()
	inSpace(t, "a changed template replaces every pod", func(s *space) {
		s.apply(web(3))
		before := uids(s.ready("web", 3))
		patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"V","value":"2"}]}]}}}}`)
		_, err := s.cs.AppsV1().Deployments(s.name).Patch(s.ctx, "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		s.must(err)
		s.eventually("rollout", func() error {
			d, err := s.cs.AppsV1().Deployments(s.name).Get(s.ctx, "web", metav1.GetOptions{})
			s.must(err)
			if d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < 3 || d.Status.AvailableReplicas < 3 || d.Status.Replicas > 3 {
				return fmt.Errorf("%+v", d.Status)
			}
			return nil
		})
		for _, p := range s.ready("web", 3) {
			if slices.Contains(before, p.UID) {
				t.Errorf("pod %s survived the rollout", p.Name)
			}
			if out, err := s.exec(p.Name, "sh", "-c", "echo $V"); err != nil || strings.TrimSpace(out) != "2" {
				t.Errorf("%s runs the old template: V=%q (%v)", p.Name, out, err)
			}
		}
	})
}

func uids(pods []corev1.Pod) []types.UID {
	var out []types.UID
	for _, p := range pods {
		out = append(out, p.UID)
	}
	return out
}

func TestE2EStatefulSetKeepsNamesAndVolumes(t *testing.T) {
	t.Parallel()
	inSpace(t, "ordinals start in order, have names in DNS and keep their volume", func(s *space) {
		s.apply(`
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - {name: db, image: APP, args: ["-mark", /data/log], volumeMounts: [{name: data, mountPath: /data}], readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`)
		pods := s.ready("db", 2)
		first, second := s.pod("db-0"), s.pod("db-1")
		if second.CreationTimestamp.Before(&first.CreationTimestamp) {
			t.Error("db-1 was created before db-0")
		}
		for _, p := range pods {
			host := fmt.Sprintf("%s.db.%s.svc.cluster.local:8080", p.Name, s.name)
			s.answers(host, func(body string) bool { return body == p.Name })
		}
		s.deleted("db-0")
		s.ready("db", 2)
		out, err := s.exec("db-0", "cat", "/data/log")
		if err != nil || strings.Count(out, "start") != 2 {
			t.Errorf("the volume of db-0 should hold both starts, it holds %q (%v)", out, err)
		}
	})
}

func TestE2EDaemonSetRunsOnEveryNode(t *testing.T) {
	t.Parallel()
	inSpace(t, "one pod on each node", func(s *space) {
		s.apply(`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: agent, image: APP}]}
`)
		nodes := map[string]bool{}
		for _, p := range s.ready("agent", 3) {
			nodes[p.Spec.NodeName] = true
		}
		if len(nodes) != 3 {
			t.Errorf("the pods are on %v, want all three nodes", nodes)
		}
	})
}

func TestE2EJobs(t *testing.T) {
	t.Parallel()
	inSpace(t, "a job completes, another fails after its retries", func(s *space) {
		s.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: good}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: x, image: APP, args: ["-exit", "0"]}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: bad}
spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: x, image: APP, args: ["-exit", "7"]}]}}}
`)
		s.jobEnds("good", batchv1.JobComplete)
		s.jobEnds("bad", batchv1.JobFailed)
		list, err := s.cs.CoreV1().Pods(s.name).List(s.ctx, metav1.ListOptions{LabelSelector: "job-name=bad"})
		s.must(err)
		if got := list.Items[0].Status.ContainerStatuses[0].State.Terminated; got == nil || got.ExitCode != 7 || got.Reason != "Error" {
			t.Errorf("the failed container says %+v, want exit code 7 and reason Error", got)
		}
	})
}

func (s *space) jobEnds(name string, want batchv1.JobConditionType) {
	s.t.Helper()
	s.eventually("job "+name, func() error {
		j, err := s.cs.BatchV1().Jobs(s.name).Get(s.ctx, name, metav1.GetOptions{})
		s.must(err)
		for _, c := range j.Status.Conditions {
			if c.Type == want && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%+v", j.Status)
	})
}

func TestE2EInitContainersRunInOrder(t *testing.T) {
	t.Parallel()
	inSpace(t, "each init container ends before the next begins", func(s *space) {
		s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec:
  volumes: [{name: v, emptyDir: {}}]
  initContainers:
  - {name: one, image: HOST, command: [sh, -c, "sleep 0.3; echo one >> /v/log"], volumeMounts: [{name: v, mountPath: /v}]}
  - {name: two, image: HOST, command: [sh, -c, "echo two >> /v/log"], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
  - {name: main, image: APP, args: ["-mark", /v/log], volumeMounts: [{name: v, mountPath: /v}]}
`)
		s.ready("p", 1)
		out, err := s.exec("p", "cat", "/v/log")
		if err != nil || out != "one\ntwo\nstart\n" {
			t.Errorf("order was %q (%v)", out, err)
		}
	})
}

func TestE2EHowContainersEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		about, command, reason string
		code                   int32
	}{
		{"an exit status of 0 is Completed", "exit 0", "Completed", 0},
		{"another is Error", "exit 3", "Error", 3},
	} {
		inSpace(t, c.about, func(s *space) {
			s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  containers: [{name: main, image: HOST, command: [sh, -c, "` + c.command + `"]}]
`)
			got := s.terminated("p", "main")
			if got.ExitCode != c.code || got.Reason != c.reason {
				s.t.Errorf("%s: %+v", c.about, got)
			}
		})
	}
}

func TestE2EFailingContainerIsRestartedWithBackOff(t *testing.T) {
	t.Parallel()
	inSpace(t, "an event says that the restart is put off, and it is", func(s *space) {
		s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: main, image: APP, args: ["-exit", "1"]}]}
`)
		// The status says CrashLoopBackOff only if the kubelet looks at the pod in between; the event comes always.
		s.eventually("BackOff event", func() error {
			list, err := s.cs.CoreV1().Events(s.name).List(s.ctx, metav1.ListOptions{FieldSelector: "reason=BackOff,involvedObject.name=p"})
			s.must(err)
			if len(list.Items) == 0 {
				return errors.New("none yet")
			}
			return nil
		})
		s.eventually("a gap between two starts", func() error {
			for _, c := range s.pod("p").Status.ContainerStatuses {
				last := c.LastTerminationState.Terminated
				for _, start := range []*metav1.Time{startOf(c.State.Running), endedStart(c.State.Terminated)} {
					// Kubernetes' first back-off is 10 s, from the end of the last run; times are whole seconds.
					if start != nil && last != nil && start.Sub(last.FinishedAt.Time) >= 9*time.Second {
						return nil
					}
				}
			}
			return fmt.Errorf("%+v", s.pod("p").Status.ContainerStatuses)
		})
	})
}

func startOf(r *corev1.ContainerStateRunning) *metav1.Time {
	if r == nil {
		return nil
	}
	return &r.StartedAt
}

func endedStart(e *corev1.ContainerStateTerminated) *metav1.Time {
	if e == nil {
		return nil
	}
	return &e.StartedAt
}

func TestE2EUnknownImageSaysWhatWasTried(t *testing.T) {
	t.Parallel()
	inSpace(t, "ErrImagePull names the sources", func(s *space) {
		s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: main, image: "127.0.0.1:1/nobody/knows:1"}]}
`)
		s.eventually("ErrImagePull", func() error {
			for _, c := range s.pod("p").Status.ContainerStatuses {
				if w := c.State.Waiting; w != nil && w.Reason == "ErrImagePull" && strings.Contains(w.Message, "no --image source matches") {
					return nil
				}
			}
			return fmt.Errorf("%+v", s.pod("p").Status.ContainerStatuses)
		})
	})
}
