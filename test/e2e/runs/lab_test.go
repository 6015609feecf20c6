package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"shakedown.dev/shakedown/checks"
	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/clusters/embedded"
	"shakedown.dev/shakedown/run"
	"shakedown.dev/shakedown/scenarios"
)

// longEnv asks for every planted fault and for ten steady runs; without it a few of each kind are tried.
const longEnv = "SHAKEDOWN_LONG"

// keepEnv names a folder in which the run folders stay.
const keepEnv = "SHAKEDOWN_KEEP_RUNS"

func long() bool { return os.Getenv(longEnv) != "" }

// onlyLong skips what is tried only when longEnv asks for it.
func onlyLong(t *testing.T) {
	t.Helper()
	if !long() {
		t.Skip(longEnv + " is not set")
	}
}

// program finds one of the programs that make build made.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../../bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v (make build)", err)
	}
	return path
}

// trial is one run: its scenario, and what is done to the system once its sessions are held.
type trial struct {
	text   []byte
	seed   uint64
	set    []string
	during func(context.Context, clusters.Cluster) error
}

// seen is a provider that remembers the cluster it gave.
type seen struct {
	clusters.Provider
	cluster clusters.Cluster
}

func (s *seen) Up(ctx context.Context, spec clusters.Spec) (clusters.Cluster, error) {
	c, err := s.Provider.Up(ctx, spec)
	s.cluster = c
	return c, err
}

// decodeOptions are those of the command line: files of a scenario lie beside it.
func decodeOptions(set []string) scenarios.Options {
	o := run.DecodeOptions(set)
	o.Files = os.DirFS(".")
	return o
}

// conduct carries a trial out and returns what came of it. It looks that no cluster is left.
func (tr trial) conduct(t *testing.T) (run.Result, error) {
	t.Helper()
	s, err := scenarios.Decode("scenario.yaml", tr.text, decodeOptions(tr.set))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	provider := &seen{Provider: &embedded.Provider{Kubelite: program(t, "kubelite")}}
	planted := make(chan error, 1)
	out := os.Getenv(keepEnv)
	if out == "" {
		out = t.TempDir()
	}
	result, err := run.Run(ctx, run.Options{
		Scenario: s, Text: tr.text, Seed: tr.seed, ProviderName: "embedded", Tool: "test",
		Provider: func(string) clusters.Provider { return provider }, Standin: program(t, "standin"), Out: out,
		Progress: func(s clusters.Step) {
			switch {
			case s.State == clusters.StepFailed:
				t.Logf("%s: %s", s.Name, s.Detail)
			case s.State == clusters.StepStarted && strings.HasPrefix(s.Name, "Holding sessions") && tr.during != nil:
				go func() { planted <- tr.during(ctx, provider.cluster) }()
			case s.State == clusters.StepDone && strings.HasPrefix(s.Name, "Holding sessions") && tr.during != nil:
				if err := <-planted; err != nil {
					t.Errorf("while sessions were held: %v", err)
				}
			}
		},
	})
	if list, lerr := (&embedded.Provider{}).List(t.Context()); lerr == nil {
		for _, c := range list {
			if strings.HasPrefix(c.Name(), "run-") && strings.HasSuffix(result.Folder, c.Name()[len("run-"):]) {
				t.Errorf("cluster %s is left", c.Name())
			}
		}
	}
	return result, err
}

// judged carries a trial out until it can be judged. Only the machine may be a reason why it cannot: one that is
// shared may be too busy to measure on, which the harness is right to call inconclusive, and then another try is
// made, three in all. Any other reason is a mistake of ours.
func (tr trial) judged(t *testing.T) run.Result {
	t.Helper()
	for range 3 {
		result, err := tr.conduct(t)
		if err != nil {
			t.Fatal(err)
		}
		if result.Verdict.Verdict != checks.Inconclusive {
			return result
		}
		tell(t, result.Verdict)
		if !busy(result.Verdict) {
			t.Fatal("inconclusive, and not for a reason of the machine")
		}
	}
	t.Skip("three runs in a row were inconclusive for reasons of the machine: it is too busy to measure on")
	return run.Result{}
}

// busy says whether the verdict doubts itself because of the machine that it was measured on.
func busy(v checks.Verdict) bool {
	of := []string{"schedule kept", "generator had CPU to spare", "clock did not jump", "control arm quick"}
	return slices.ContainsFunc(v.Validity, func(c checks.Validity) bool { return !c.OK && slices.Contains(of, c.Name) })
}

// tell prints the verdict where a test fails: the reasons are what a reader asks for.
func tell(t *testing.T, v checks.Verdict) {
	t.Helper()
	t.Logf("verdict %s\n  %s", v.Verdict, strings.Join(v.Reasons, "\n  "))
	t.Logf("sessions %+v", v.Measures.Sessions)
	t.Logf("recordings %+v", v.Measures.Recordings)
}

// findings are the summaries and details of all that a verdict found wrong.
func findings(v checks.Verdict) string {
	var out []string
	for _, f := range v.Findings {
		if f.Outcome == checks.Fail {
			out = append(out, f.Summary)
			out = append(out, f.Details...)
		}
	}
	return strings.Join(out, "\n")
}

// plant tells stand-ins that run to be wrong: the first n pods of a component, all if n is 0.
func plant(component string, n int, fault ...string) func(context.Context, clusters.Cluster) error {
	return func(ctx context.Context, c clusters.Cluster) error {
		config, err := c.RESTConfig(ctx)
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return fmt.Errorf("no pod of %s", component)
		}
		for i, p := range list.Items {
			if n > 0 && i == n {
				break
			}
			req := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(p.Name).SubResource("exec").
				VersionedParams(&corev1.PodExecOptions{Container: p.Spec.Containers[0].Name, Stdout: true, Stderr: true,
					Command: append([]string{"standin", "fault", "--data-dir", "/var/lib/teleport", "set"}, fault...)}, scheme.ParameterCodec)
			exec, err := remotecommand.NewSPDYExecutor(config, "POST", req.URL())
			if err != nil {
				return err
			}
			var out bytes.Buffer
			if err := exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &out}); err != nil {
				return fmt.Errorf("plant %v in %s: %w: %s", fault, p.Name, err, out.String())
			}
		}
		return nil
	}
}

const namespace = "teleport"

// there says whether a run folder has a file.
func there(folder, name string) error {
	_, err := os.Stat(filepath.Join(folder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not in the run folder", name)
	}
	return err
}
