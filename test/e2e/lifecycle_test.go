package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestE2EProbes(t *testing.T) {
	t.Parallel()
	inSpace(t, "readiness gates endpoints, liveness restarts, startup waits", func(s *space) {
		s.apply(`
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: web
    image: APP
    args: ["-ready", /tmp/ready]
    readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1, failureThreshold: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: mortal, labels: {app: mortal}}
spec:
  containers:
  - name: x
    image: HOST
    command: [sh, -c, "touch /tmp/alive; sleep 2; rm /tmp/alive; sleep 600"]
    livenessProbe: {exec: {command: [cat, /tmp/alive]}, periodSeconds: 1, failureThreshold: 1}
  terminationGracePeriodSeconds: 0
---
apiVersion: v1
kind: Pod
metadata: {name: slow, labels: {app: slow}}
spec:
  containers:
  - name: x
    image: APP
    args: ["-delay", 3s]
    startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, failureThreshold: 20}
    livenessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1, failureThreshold: 1}
`)
		service := "web." + s.name + ".svc.cluster.local:80"
		s.eventually("container of web running", func() error {
			if c := s.pod("web").Status.ContainerStatuses; len(c) == 0 || c[0].State.Running == nil {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		if _, err := s.get(service, "/"); err == nil {
			t.Error("the Service answers through a pod that is not ready")
		}
		_, err := s.exec("web", "touch", "/tmp/ready")
		s.must(err)
		s.answers(service, func(b string) bool { return b == "web" })
		_, err = s.exec("web", "rm", "/tmp/ready")
		s.must(err)
		s.eventually("unready pod leaves the Service", func() error {
			if _, err := s.get(service, "/"); err == nil {
				return fmt.Errorf("still answers")
			}
			return nil
		})
		s.eventually("restart by the liveness probe", func() error {
			if c := s.pod("mortal").Status.ContainerStatuses; len(c) == 0 || c[0].RestartCount == 0 {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		s.ready("slow", 1)
		if n := s.pod("slow").Status.ContainerStatuses[0].RestartCount; n != 0 {
			t.Errorf("the startup probe did not hold the liveness probe back: %d restarts", n)
		}
	})
}

// stopper is a pod whose events go to a volume that outlives it.
func stopper(name, preStop, linger string, grace int) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  terminationGracePeriodSeconds: %[2]d
  volumes: [{name: log, persistentVolumeClaim: {claimName: log}}]
  containers:
  - name: x
    image: APP
    args: ["-linger", %[3]s, "-mark", /log/%[1]s]
    volumeMounts: [{name: log, mountPath: /log}]
    readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
    lifecycle: {preStop: %[4]s}
`, name, grace, linger, preStop)
}

func TestE2EStopping(t *testing.T) {
	t.Parallel()
	inSpace(t, "preStop hooks run before SIGTERM, and SIGKILL ends what exceeds its grace", func(s *space) {
		s.apply(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: log}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: reader, labels: {app: reader}}
spec:
  volumes: [{name: log, persistentVolumeClaim: {claimName: log}}]
  containers: [{name: x, image: APP, volumeMounts: [{name: log, mountPath: /log}]}]
`)
		s.ready("reader", 1)
		for _, c := range []struct {
			name, preStop, linger string
			grace                 int
			events                string
			least, most           time.Duration
		}{
			{"byexec", `{exec: {command: [sh, -c, "echo prestop >> /log/byexec"]}}`, "0s", 30, "start prestop term", 0, 15 * time.Second},
			{"byhttp", `{httpGet: {path: /prestop, port: 8080}}`, "0s", 30, "start prestop term", 0, 15 * time.Second},
			{"bysleep", `{sleep: {seconds: 2}}`, "0s", 30, "start term", 2 * time.Second, 20 * time.Second},
			{"patient", `{sleep: {seconds: 0}}`, "2s", 30, "start term", 2 * time.Second, 20 * time.Second},
			{"stubborn", `{sleep: {seconds: 0}}`, "600s", 2, "start term", 2 * time.Second, 20 * time.Second},
		} {
			s.apply(stopper(c.name, c.preStop, c.linger, c.grace))
			s.ready(c.name, 1)
			took := s.deleted(c.name)
			if took < c.least || took > c.most {
				t.Errorf("%s: gone after %v, want %v to %v", c.name, took, c.least, c.most)
			}
			out, err := s.exec("reader", "cat", "/log/"+c.name)
			if got := strings.Join(strings.Fields(out), " "); err != nil || got != c.events {
				t.Errorf("%s: events %q, want %q (%v)", c.name, got, c.events, err)
			}
		}
	})
}

func TestE2EKilledContainerSays137(t *testing.T) {
	t.Parallel()
	inSpace(t, "SIGKILL from outside is 137", func(s *space) {
		s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec:
  shareProcessNamespace: true
  restartPolicy: Never
  containers:
  - {name: main, image: APP}
  - {name: other, image: HOST, command: [sleep, "600"]}
`)
		s.ready("p", 1)
		req := "for d in /proc/[0-9]*; do if [ \"$(readlink $d/exe)\" = /usr/local/bin/app ]; then kill -9 ${d#/proc/} || exit; fi; done"
		if out, err := s.execIn("p", "other", "sh", "-c", req); err != nil {
			t.Fatalf("kill: %v %s", err, out)
		}
		if got := s.terminated("p", "main"); got.ExitCode != 137 {
			t.Errorf("killed container says %+v", got)
		}
	})
}
