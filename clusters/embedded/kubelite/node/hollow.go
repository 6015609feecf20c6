package node

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	apitest "k8s.io/cri-api/pkg/apis/testing"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"

	"shakedown.dev/shakedown/clusters/embedded/kubelite/pki"
)

// HollowLabel marks hollow nodes; the taint of the same key keeps pods away
// unless they ask.
const HollowLabel = "shakedown.dev/hollow"

// hollowStarters is how many hollow nodes start at once: enough to keep two
// cores busy, few enough that the API server keeps answering the real ones.
const hollowStarters = 8

// RunHollow runs hollow nodes: Kubernetes' own kubelet over its own fake
// runtime, as its scale tests do, with pods that never really run.
func RunHollow(args []string) error {
	var cfg HollowConfig
	if err := readConfig(args, &cfg); err != nil {
		return err
	}
	ca, err := readAuthority(cfg.CA, cfg.CAKey)
	if err != nil {
		return err
	}
	if err := privateTmp(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	slots := make(chan struct{}, hollowStarters)
	gate := newTurnstile()
	failed := make(chan error, 1)
	for i := 1; i <= cfg.Count; i++ {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			if err := startHollow(ctx, cfg, ca, gate, fmt.Sprintf("hollow%d", i)); err != nil {
				select {
				case failed <- fmt.Errorf("hollow%d: %w", i, err):
				default:
				}
			}
		}()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// privateTmp covers the machine's /tmp in this process's own mount namespace:
// kubemark makes its directories there whatever TMPDIR says.
func privateTmp() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("hollow", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mount a private /tmp: %w", err)
	}
	return nil
}

func startHollow(ctx context.Context, cfg HollowConfig, ca *pki.Authority, gate *turnstile, name string) error {
	identity, err := ca.Client("system:node:"+name, "system:nodes")
	if err != nil {
		return err
	}
	key, err := identity.KeyPEM()
	if err != nil {
		return err
	}
	restConfig := &rest.Config{Host: cfg.Server, TLSClientConfig: rest.TLSClientConfig{CAFile: cfg.CA, CertData: identity.CertPEM(), KeyData: key}}
	client, err := clientset.NewForConfig(restConfig)
	if err != nil {
		return err
	}
	heartbeat := rest.CopyConfig(restConfig)
	heartbeat.QPS = -1
	hb, err := clientset.NewForConfig(heartbeat)
	if err != nil {
		return err
	}
	flags, c := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{
		NodeName: name, MaxPods: maxPods,
		NodeLabels:         map[string]string{HollowLabel: "true"},
		RegisterWithTaints: []corev1.Taint{{Key: HollowLabel, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
	})
	flags.CertDirectory, flags.NodeIP = filepath.Join(cfg.Dir, name), cfg.NodeIP
	c.EnableServer = false // hundreds of listeners for nobody
	c.StaticPodPath = ""   // each watched directory is one of the user's few inotify instances
	c.EvictionHard = nil
	c.MaxOpenFiles = openFilesLimit()
	beat(c, cfg.MonitorGrace)
	k := kubemark.NewHollowKubelet(flags, c, client, hb, machine{&cadvisortest.Fake{NodeName: name}},
		apitest.NewFakeImageService(), fakeRuntime(), cm.NewStubContainerManager())
	server := &options.KubeletServer{KubeletFlags: *k.KubeletFlags, KubeletConfiguration: *k.KubeletConfiguration}
	return gate.pass(func() error { return kubeletapp.RunKubelet(ctx, server, k.KubeletDeps) })
}

// fakeRuntime is Kubernetes' fake container runtime, in good health.
func fakeRuntime() *apitest.FakeRuntimeService {
	rt := apitest.NewFakeRuntimeService()
	rt.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Status: true},
	}}
	return rt
}

// readAuthority reads what pki wrote.
func readAuthority(certFile, keyFile string) (*pki.Authority, error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	return parseAuthority(cert, key)
}

func parseAuthority(certPEM, keyPEM []byte) (*pki.Authority, error) {
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("authority: not PEM")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, err
	}
	return pki.NewAuthorityFrom(cert, key)
}
