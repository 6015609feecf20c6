package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	noopoteltrace "go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	internalapi "k8s.io/cri-api/pkg/apis"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/pkg/util/oom"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/mount-utils"
)

// LimitsLabel says whether memory and CPU limits hold on a node.
const LimitsLabel = "shakedown.dev/limits"

// maxPods is Kubernetes' own default.
const maxPods = 110

// kubeletServer is the kubelet's configuration. Where it differs from a
// default there is a reason beside it.
func kubeletServer(cfg Config, limits string) (*options.KubeletServer, error) {
	flags := options.NewKubeletFlags()
	c, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, err
	}
	flags.RootDirectory = cfg.kubeletDir()
	flags.CertDirectory = filepath.Join(cfg.kubeletDir(), "pki")
	flags.HostnameOverride, flags.NodeIP = cfg.Name, cfg.Address
	flags.KubeConfig = cfg.Kubeconfig
	flags.NodeLabels = maps.Clone(cfg.Labels)
	if flags.NodeLabels == nil {
		flags.NodeLabels = map[string]string{}
	}
	flags.NodeLabels[LimitsLabel] = limits

	c.Address, c.Port, c.ReadOnlyPort = cfg.Address, 10250, 0
	c.TLSCertFile, c.TLSPrivateKeyFile = cfg.TLSCert, cfg.TLSKey
	c.Authentication.X509.ClientCAFile = cfg.ClientCA
	c.Authentication.Anonymous.Enabled, c.Authentication.Webhook.Enabled = false, true
	c.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeWebhook
	c.ClusterDNS, c.ClusterDomain = []string{cfg.ClusterDNS}, cfg.ClusterDomain
	c.ResolverConfig = cfg.ResolvConf
	c.PodLogsDir = cfg.podLogs()
	c.MaxPods, c.RegisterNode, c.ProviderID = maxPods, true, "shakedown://"+cfg.Cluster+"/"+cfg.Name
	// The runtime is a value in this process; the endpoint is only a name.
	c.ContainerRuntimeEndpoint, c.ImageServiceEndpoint = "unix://"+cfg.runtimeDir(), "unix://"+cfg.runtimeDir()
	c.CgroupRoot, c.CgroupsPerQOS, c.EnforceNodeAllocatable = "", false, nil
	c.FailSwapOn, c.FailCgroupV1 = false, false
	// The machine belongs to all nodes together: its disk or memory running
	// low is the harness's business, not a reason to evict pods of one node.
	c.EvictionHard = nil
	c.ImageGCHighThresholdPercent, c.ImageGCLowThresholdPercent = 100, 99
	// Every pull is an answer of the image service beside us: nothing to be spared.
	c.SerializeImagePulls, c.RegistryPullQPS = false, 0
	c.EnableControllerAttachDetach = false
	c.KubeAPIQPS, c.KubeAPIBurst = 100, 200
	c.MaxOpenFiles = openFilesLimit()
	beat(c, cfg.MonitorGrace)
	if InUserNamespace() {
		c.FeatureGates = map[string]bool{"KubeletInUserNamespace": true}
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(c.FeatureGates); err != nil {
			return nil, err
		}
	}
	return &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *c}, nil
}

// dependencies are what upstream's main would build, with our runtime in place
// of a socket, plain directories in place of mounts (all of the node is one
// private file system), and no cgroup hierarchy of the kubelet's own. Kubernetes'
// scale tests build their hollow nodes this way (pkg/kubemark).
func dependencies(ctx context.Context, cfg Config, s *options.KubeletServer, rt internalapi.RuntimeService, images internalapi.ImageManagerService) (*kubelet.Dependencies, error) {
	for _, d := range []string{cfg.kubeletDir(), cfg.podLogs()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	restConfig, err := clientcmd.BuildConfigFromFlags("", cfg.Kubeconfig)
	if err != nil {
		return nil, err
	}
	restConfig.QPS, restConfig.Burst = float32(s.KubeAPIQPS), int(s.KubeAPIBurst)
	client, err := clientset.NewForConfig(restConfig)
	if err != nil {
		return nil, err
	}
	heartbeat, err := heartbeatClient(restConfig, s)
	if err != nil {
		return nil, err
	}
	auth, reload, err := kubeletapp.BuildAuth(types.NodeName(cfg.Name), client, s.KubeletConfiguration)
	if err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	reload(ctx.Done())
	tls, err := kubeletapp.InitializeTLS(ctx, &s.KubeletFlags, &s.KubeletConfiguration)
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	deps := &kubelet.Dependencies{
		Auth: auth, TLSOptions: tls,
		KubeClient: client, EventClient: client.CoreV1(), HeartbeatClient: heartbeat,
		RemoteRuntimeService: rt, RemoteImageService: images,
		CAdvisorInterface: machine{&cadvisortest.Fake{NodeName: cfg.Name}},
		ContainerManager:  cm.NewStubContainerManager(),
		OSInterface:       kubecontainer.RealOS{},
		OOMAdjuster:       oom.NewFakeOOMAdjuster(),
		Mounter:           &mount.FakeMounter{}, Subpather: subpaths{}, HostUtil: hostutil.NewHostUtil(),
		VolumePlugins:             volumePlugins(),
		PodStartupLatencyTracker:  kubeletutil.NewPodStartupLatencyTracker(),
		NodeStartupLatencyTracker: kubeletutil.NewNodeStartupLatencyTracker(),
		TracerProvider:            noopoteltrace.NewTracerProvider(),
	}
	if !kernelLogReadable() {
		// A real recorder makes the kubelet watch the kernel's log for OOM kills.
		// This one is shorn of that and still sends its events.
		deps.Recorder = apiRecorder(deps.EventClient, cfg.Name)
	}
	return deps, nil
}

// openFilesLimit is what this process may have; the kubelet sets what it is
// given, and raising it may not be allowed.
func openFilesLimit() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 1024
	}
	return int64(min(l.Max, 1<<20))
}

func heartbeatClient(base *rest.Config, s *options.KubeletServer) (clientset.Interface, error) {
	c := rest.CopyConfig(base)
	c.Timeout = min(s.NodeStatusUpdateFrequency.Duration, time.Duration(s.NodeLeaseDurationSeconds)*time.Second)
	c.QPS = -1
	return clientset.NewForConfig(c)
}

func kernelLogReadable() bool {
	f, err := os.Open("/dev/kmsg")
	if err != nil {
		return false
	}
	return f.Close() == nil
}
