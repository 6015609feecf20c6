package charts

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// object is one rendered Kubernetes object.
type object = unstructured.Unstructured

// render gives what Helm would send for release "teleport" in namespace "teleport", as one text and as objects.
func render(t *testing.T, c *chart.Chart, values string) (string, []object, error) {
	t.Helper()
	vals := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &vals); err != nil {
		t.Fatal(err)
	}
	caps := common.DefaultCapabilities.Copy()
	release := common.ReleaseOptions{Name: "teleport", Namespace: "teleport", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, vals, release, caps)
	if err != nil {
		return "", nil, err
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return "", nil, err
	}
	return split(t, rendered)
}

func split(t *testing.T, rendered map[string]string) (string, []object, error) {
	t.Helper()
	names := make([]string, 0, len(rendered))
	for name := range rendered {
		if strings.HasSuffix(name, ".yaml") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var text bytes.Buffer
	var objects []object
	for _, name := range names {
		for _, doc := range strings.Split("\n"+rendered[name], "\n---") {
			o := object{}
			if err := yaml.UnmarshalStrict([]byte(doc), &o.Object); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, doc)
			}
			if len(o.Object) == 0 {
				continue
			}
			out, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString("---\n# " + name + "\n" + string(out))
			objects = append(objects, o)
		}
	}
	return text.String(), objects, nil
}

func mustLoad(t *testing.T, name, version string) *chart.Chart {
	t.Helper()
	c, err := Load(name, version)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGolden(t *testing.T) {
	tests := []struct{ file, chart, version, values string }{
		{"cluster-minimal", Cluster, "1.0.0", lab},
		{"cluster-statefulset", Cluster, "2.1.0", lab + "workload: StatefulSet\nproxy: {persistence: {enabled: true}}\nstrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}\n"},
		{"cluster-everything", Cluster, "1.1.0", everything},
		{"agents-tunnel", Agents, "1.0.0", "authToken: secret\nproxyAddr: teleport.teleport.svc.cluster.local:443\nagentsPerPod: 2\nlabels: {fleet: lab}\n"},
		{"agents-direct", Agents, "1.0.0", "authToken: secret\nauthAddr: teleport-auth.teleport.svc.cluster.local:3025\njoin: direct\nworkload: StatefulSet\npersistence: {enabled: true}\nstandin: {faults: half-open}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			got, _, err := render(t, mustLoad(t, tt.chart, tt.version), tt.values)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", tt.file+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs; run go test -update and read the change", path)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	tests := []struct{ because, chart, values, want string }{
		{"a misspelt key would silently keep the default", Cluster, lab + "highAvailabilty: {replicaCount: 3}\n", "highAvailabilty"},
		{"also under a component", Cluster, lab + "proxy: {replicas: 3}\n", "replicas"},
		{"a mode the program does not know", Cluster, lab + "sessionRecording: async\n", "sessionRecording"},
		{"what the stand-in cannot do is said, not ignored", Cluster, lab + "acme: true\n", "acme"},
		{"the cluster's name has no default", Cluster, "{}", "clusterName is required"},
		{"two placements exclude each other", Cluster, lab + "affinity: {nodeAffinity: {}}\nhighAvailability: {requireAntiAffinity: true}\n", "exclude each other"},
		{"scratch has no generated configuration", Cluster, lab + "chartMode: scratch\n", "teleportConfig"},
		{"agents need somewhere to join", Agents, "authToken: x\n", "proxyAddr is required"},
		{"a Deployment's pods cannot have a claim each", Agents, "authToken: x\nproxyAddr: a:1\npersistence: {enabled: true}\n", "StatefulSet"},
	}
	for _, tt := range tests {
		t.Run(tt.because, func(t *testing.T) {
			_, _, err := render(t, mustLoad(t, tt.chart, ""), tt.values)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error naming %q", err, tt.want)
			}
		})
	}
}

func TestLoadVersion(t *testing.T) {
	if _, err := Load(Cluster, "latest"); err == nil {
		t.Error("version latest was taken: the templates cannot compare its major")
	}
	if _, err := Load("nope", ""); err == nil {
		t.Error("a chart that does not exist was loaded")
	}
}

func TestLint(t *testing.T) {
	for name, values := range map[string]string{Cluster: lab, Agents: "authToken: x\nproxyAddr: a:1\n"} {
		vals := map[string]any{}
		if err := yaml.Unmarshal([]byte(values), &vals); err != nil {
			t.Fatal(err)
		}
		lint := action.NewLint()
		lint.Strict = true
		result := lint.Run([]string{name}, vals)
		if result.TotalChartsLinted != 1 {
			t.Errorf("%s: %d charts linted", name, result.TotalChartsLinted)
		}
		for _, m := range result.Messages {
			t.Errorf("%s: %v", name, m)
		}
		for _, err := range result.Errors {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// loadForeign reads a chart that is not ours: the imitated one, for comparison.
func loadForeign(t *testing.T, path string) *chart.Chart {
	t.Helper()
	c, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const lab = `
clusterName: teleport.teleport.svc.cluster.local
proxyListenerMode: multiplex
service: {type: ClusterIP}
insecureSkipProxyTLSVerify: true
tls: {existingSecretName: teleport-tls}
auth: {highAvailability: {replicaCount: 1}}
proxy: {highAvailability: {replicaCount: 3}}
`

const everything = `
clusterName: teleport.teleport.svc.cluster.local
kubeClusterName: lab
proxyListenerMode: separate
sessionRecording: proxy-sync
labels: {env: lab}
publicAddr: ["teleport.example.com:443"]
persistence: {enabled: false}
insecureSkipProxyTLSVerify: true
tls: {existingSecretName: teleport-tls}
podMonitor: {enabled: true}
preStopWait: ""
stopSignal: QUIT
waitForAuth: {publishNotReadyAddresses: false}
etcd: {enabled: true}
standin: {behaveAs: "17", faults: "drop-silently,lose-recording", timeFactor: 20}
extraArgs: [--debug]
extraEnv: [{name: A, value: b}]
extraVolumes: [{name: x, emptyDir: {}}]
extraVolumeMounts: [{name: x, mountPath: /x}]
initContainers: [{name: first, image: busybox, command: ["true"]}]
postStart: {command: [teleport, version]}
resources: {requests: {memory: 30Mi}}
securityContext: {runAsUser: 0}
priorityClassName: high
nodeSelector: {pool: lab}
tolerations: [{operator: Exists}]
annotations: {config: {a: b}, deployment: {a: b}, pod: {a: b}, service: {a: b}, serviceAccount: {a: b}}
service: {type: NodePort, spec: {externalTrafficPolicy: Local}}
auth:
  highAvailability: {replicaCount: 2, podDisruptionBudget: {enabled: true}}
  teleportConfig: {auth_service: {tokens: ["node:token"]}}
proxy:
  highAvailability: {replicaCount: 4, requireAntiAffinity: true, podDisruptionBudget: {enabled: true, minAvailable: 2}}
  terminationGracePeriodSeconds: 90
  standin: {faults: never-drain}
`
