package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestE2EConfiguredVolumesAndTheirUpdates(t *testing.T) {
	t.Parallel()
	inSpace(t, "ConfigMap, Secret, downward and projected volumes; changes reach the container", func(s *space) {
		s.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {key: one, other: sub}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {key: hidden}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec:
  volumes:
  - {name: config, configMap: {name: c}}
  - {name: secret, secret: {secretName: s, defaultMode: 0400}}
  - name: all
    projected:
      sources:
      - configMap: {name: c, items: [{key: key, path: from-config}]}
      - secret: {name: s, items: [{key: key, path: from-secret}]}
      - downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
  containers:
  - name: x
    image: APP
    env:
    - {name: FROM_CONFIG, valueFrom: {configMapKeyRef: {name: c, key: key}}}
    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    volumeMounts:
    - {name: config, mountPath: /config}
    - {name: config, mountPath: /etc/sub.conf, subPath: other}
    - {name: secret, mountPath: /secret, readOnly: true}
    - {name: all, mountPath: /all}
`)
		pod := s.ready("p", 1)[0]
		script := `cat /config/key /etc/sub.conf /secret/key /all/from-config /all/from-secret /all/labels; echo; echo $FROM_CONFIG $POD_IP; stat -L -c %a /secret/key; touch /secret/x 2>/dev/null || echo read-only`
		want := "onesubhiddenonehidden" + `app="p"` + "\none " + pod.Status.PodIP + "\n400\nread-only\n"
		if out, err := s.exec("p", "sh", "-c", script); err != nil || out != want {
			t.Errorf("the container sees\n%q, want\n%q (%v)", out, want, err)
		}
		_, err := s.cs.CoreV1().ConfigMaps(s.name).Patch(s.ctx, "c", types.MergePatchType, []byte(`{"data":{"key":"two"}}`), metav1.PatchOptions{})
		s.must(err)
		s.eventually("update of the ConfigMap in the container", func() error {
			out, err := s.exec("p", "cat", "/config/key")
			if err == nil && out != "two" {
				err = fmt.Errorf("it says %q", out)
			}
			return err
		})
	})
}

func TestE2EClaimedVolumeIsBoundToItsNode(t *testing.T) {
	t.Parallel()
	inSpace(t, "a claim waits for its pod, survives it, binds later pods to the node, and goes with the claim", func(s *space) {
		pod := `
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %[1]s}}
spec:
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
  containers: [{name: x, image: APP, volumeMounts: [{name: v, mountPath: /v}]}]
`
		s.apply(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`)
		claim, err := s.cs.CoreV1().PersistentVolumeClaims(s.name).Get(s.ctx, "data", metav1.GetOptions{})
		s.must(err)
		if claim.Status.Phase != corev1.ClaimPending {
			t.Errorf("without a pod the claim is %s, want Pending", claim.Status.Phase)
		}
		s.apply(fmt.Sprintf(pod, "first"))
		node := s.ready("first", 1)[0].Spec.NodeName
		_, err = s.exec("first", "sh", "-c", "echo kept > /v/file")
		s.must(err)
		s.deleted("first")
		s.apply(fmt.Sprintf(pod, "second"))
		if p := s.ready("second", 1)[0]; p.Spec.NodeName != node {
			t.Errorf("the second pod is on %s, its volume on %s", p.Spec.NodeName, node)
		}
		if out, err := s.exec("second", "cat", "/v/file"); err != nil || strings.TrimSpace(out) != "kept" {
			t.Errorf("the volume holds %q (%v)", out, err)
		}
		s.deleted("second")
		claim, err = s.cs.CoreV1().PersistentVolumeClaims(s.name).Get(s.ctx, "data", metav1.GetOptions{})
		s.must(err)
		s.must(s.cs.CoreV1().PersistentVolumeClaims(s.name).Delete(s.ctx, "data", metav1.DeleteOptions{}))
		s.eventually("volume gone", func() error {
			if _, err := s.cs.CoreV1().PersistentVolumes().Get(s.ctx, claim.Spec.VolumeName, metav1.GetOptions{}); err == nil {
				return fmt.Errorf("still there")
			}
			return nil
		})
	})
}

func TestE2ESecurityContext(t *testing.T) {
	t.Parallel()
	inSpace(t, "user, groups, read-only root, working directory and privileges are as asked", func(s *space) {
		s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec:
  securityContext: {runAsUser: 1234, runAsGroup: 2345, fsGroup: 3456, supplementalGroups: [4567]}
  volumes: [{name: v, emptyDir: {}}]
  containers:
  - name: x
    image: APP
    workingDir: /opt/made/here
    securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: v, mountPath: /v}]
`)
		s.ready("p", 1)
		script := `id -u; id -g; id -G | tr ' ' '\n' | sort -n | tr '\n' ' '; echo; pwd; touch /x 2>/dev/null && echo writable; touch /v/x && stat -c %g /v/x; grep -E '^(CapEff|NoNewPrivs)' /proc/self/status | tr -d '\t'`
		out, err := s.exec("p", "sh", "-c", script)
		want := "1234\n2345\n2345 3456 4567 \n/opt/made/here\n3456\nCapEff:0000000000000000\nNoNewPrivs:1\n"
		if err != nil || out != want {
			t.Errorf("the container says\n%s, want\n%s (%v)", out, want, err)
		}
	})
}

func TestE2EHostPathStaysOnItsNode(t *testing.T) {
	t.Parallel()
	inSpace(t, "what a pod writes to a hostPath never reaches this machine's disk", func(s *space) {
		if err := onlyRoot(); err != nil {
			t.Skip(err)
		}
		s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec:
  volumes: [{name: h, hostPath: {path: /var/lib/shakedown-e2e, type: DirectoryOrCreate}}]
  containers: [{name: x, image: APP, volumeMounts: [{name: h, mountPath: /h}]}]
`)
		s.ready("p", 1)
		_, err := s.exec("p", "touch", "/h/file")
		s.must(err)
		if exists("/var/lib/shakedown-e2e") {
			t.Error("the hostPath volume was made on this machine")
		}
	})
}

func TestE2EMemoryLimitHoldsOrIsDisowned(t *testing.T) {
	t.Parallel()
	inSpace(t, "with cgroups a container over its limit is OOMKilled, without the node says so", func(s *space) {
		facts, err := s.c.Facts(s.ctx)
		s.must(err)
		node, err := s.cs.CoreV1().Nodes().Get(s.ctx, "node1", metav1.GetOptions{})
		s.must(err)
		label := node.Labels["shakedown.dev/limits"]
		if !facts.Limits.Hold {
			if label != "not-enforced" || facts.Limits.Why == "" {
				t.Errorf("limits do not hold, the label says %q and the reason is %q", label, facts.Limits.Why)
			}
			return
		}
		if label != "enforced" {
			t.Errorf("limits hold, the label says %q", label)
		}
		s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  containers:
  - {name: x, image: HOST, command: [perl, -e, "my $x = 'x' x (256 << 20); sleep 600"], resources: {limits: {memory: 64Mi}}}
`)
		if got := s.terminated("p", "x"); got.ExitCode != 137 || got.Reason != "OOMKilled" {
			t.Errorf("over its limit the container says %+v", got)
		}
	})
}
