package boot

import (
	"context"
	"fmt"

	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// smallHeap trades processor time for memory in components that are mostly
// idle: their live heap is small, and at the default they would keep twice it.
var smallHeap = []string{"GOGC=50"}

// nodeEnv has a node give up connections to the API server that are dead, such as after a partition, in half
// of the time in which it is believed alive; at client-go's default of 45 s they would outlast it. On a busy
// machine an answer may take a second or two, and is no sign of death.
func nodeEnv(monitorGrace time.Duration) []string {
	if monitorGrace <= 0 {
		return smallHeap
	}
	seconds := max(3, int(monitorGrace.Seconds()/4))
	return append(slices.Clone(smallHeap), fmt.Sprintf("HTTP2_READ_IDLE_TIMEOUT_SECONDS=%d", seconds), fmt.Sprintf("HTTP2_PING_TIMEOUT_SECONDS=%d", seconds))
}

func etcdSpawn() spawn {
	return spawn{name: "etcd", env: smallHeap, args: []string{"etcd",
		"--data-dir=" + filepath.Join(stateDir, "etcd"),
		"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=http://127.0.0.1:2380",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=default=http://127.0.0.1:2380",
		// The data is as short-lived as the cluster: there is no crash to survive.
		"--unsafe-no-fsync", "--log-level=warn", "--auto-compaction-mode=periodic", "--auto-compaction-retention=5m",
		"--quota-backend-bytes=1073741824",
	}}
}

func apiServerSpawn() spawn {
	p := func(name string) string { return filepath.Join(pkiDir(), name) }
	return spawn{name: "apiserver", args: []string{"apiserver",
		"--etcd-servers=" + etcdURL,
		"--bind-address=0.0.0.0", fmt.Sprintf("--secure-port=%d", apiPort), "--advertise-address=" + apiAddress,
		"--service-cluster-ip-range=" + serviceCIDR,
		"--client-ca-file=" + p("ca.crt"),
		"--tls-cert-file=" + p("apiserver.crt"), "--tls-private-key-file=" + p("apiserver.key"),
		"--kubelet-certificate-authority=" + p("ca.crt"),
		"--kubelet-client-certificate=" + p("apiserver-kubelet-client.crt"), "--kubelet-client-key=" + p("apiserver-kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--proxy-client-cert-file=" + p("front-proxy-client.crt"), "--proxy-client-key-file=" + p("front-proxy-client.key"),
		"--requestheader-client-ca-file=" + p("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-account-issuer=https://kubernetes.default.svc." + clusterDomain,
		"--service-account-key-file=" + p("service-accounts.crt"), "--service-account-signing-key-file=" + p("service-accounts.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
	}}
}

func controllerManagerSpawn(monitorGrace time.Duration) spawn {
	args := []string{"controller-manager",
		"--kubeconfig=" + kubeconfigPath("controller-manager"),
		"--authentication-kubeconfig=" + kubeconfigPath("controller-manager"),
		"--authorization-kubeconfig=" + kubeconfigPath("controller-manager"),
		"--use-service-account-credentials", "--leader-elect=false", "--bind-address=127.0.0.1",
		"--root-ca-file=" + filepath.Join(pkiDir(), "ca.crt"),
		"--service-account-private-key-file=" + filepath.Join(pkiDir(), "service-accounts.key"),
		"--cluster-signing-cert-file=" + filepath.Join(pkiDir(), "ca.crt"),
		"--cluster-signing-key-file=" + filepath.Join(pkiDir(), "ca.key"),
		"--cluster-cidr=" + podCIDR, "--service-cluster-ip-range=" + serviceCIDR,
		// At the default of 20 a second the controllers' own service accounts alone take five seconds.
		"--kube-api-qps=300", "--kube-api-burst=600",
	}
	if monitorGrace > 0 {
		// Often, because the controller also takes its taints back at that pace.
		period := min(5*time.Second, max(500*time.Millisecond, monitorGrace/16))
		args = append(args, "--node-monitor-grace-period="+monitorGrace.String(), "--node-monitor-period="+period.String())
	}
	return spawn{name: "controller-manager", env: smallHeap, args: args}
}

func schedulerSpawn() spawn {
	return spawn{name: "scheduler", env: smallHeap, args: []string{"scheduler",
		"--kubeconfig=" + kubeconfigPath("scheduler"),
		"--authentication-kubeconfig=" + kubeconfigPath("scheduler"), "--authorization-kubeconfig=" + kubeconfigPath("scheduler"),
		"--leader-elect=false", "--bind-address=127.0.0.1",
	}}
}

// proxySpawn is kube-proxy for one network namespace. Its conntrack settings
// are those of the whole machine, which are not ours to change.
func proxySpawn(name, node string) spawn {
	return spawn{name: name, restart: true, env: smallHeap, args: []string{"proxy",
		"--kubeconfig=" + kubeconfigPath("proxy"), "--hostname-override=" + node,
		"--proxy-mode=nftables", "--cluster-cidr=" + podCIDR, "--nodeport-addresses=primary",
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
	}}
}

func dnsSpawn() spawn {
	return spawn{name: "dns", env: smallHeap, args: []string{"dns", "-conf", filepath.Join(stateDir, "Corefile")}}
}

func cloudSpawn() spawn {
	return spawn{name: "cloud", env: smallHeap, args: []string{"cloud",
		"--kubeconfig=" + kubeconfigPath("cloud"), "--storage=" + storageDir(), "--balancer-range=" + balancerCIDR,
	}}
}

// Names outside the cluster are refused at once: there is no way to them from
// here, and a resolver that waits would look like a fault.
const corefile = `.:53 {
    bind ` + apiAddress + `
    errors
    ready ` + apiAddress + `:8181
    kubernetes ` + clusterDomain + ` in-addr.arpa ip6.arpa {
        kubeconfig ` + stateDir + `/kubeconfig/dns
        pods insecure
        ttl 5
        fallthrough in-addr.arpa ip6.arpa
    }
    cache 5
    loadbalance
}
`

// startControlPlane returns when the API server is ready and the objects that
// components need are there.
func (c *cluster) startControlPlane(ctx context.Context) error {
	for _, s := range []spawn{etcdSpawn(), apiServerSpawn()} {
		if _, err := c.start(s); err != nil {
			return err
		}
	}
	client, err := adminClient()
	if err != nil {
		return err
	}
	c.client = client
	return c.await(ctx, "API server", func(ctx context.Context) error {
		_, err := client.RESTClient().Get().AbsPath("/readyz").Timeout(2 * time.Second).DoRaw(ctx)
		return err
	})
}

// startControllers starts what works on the API server.
func (c *cluster) startControllers() error {
	if err := os.WriteFile(filepath.Join(stateDir, "Corefile"), []byte(corefile), 0o600); err != nil {
		return err
	}
	for _, s := range []spawn{controllerManagerSpawn(c.grace), schedulerSpawn(), dnsSpawn(), cloudSpawn(), proxySpawn("proxy", planNode(1).name)} {
		if _, err := c.start(s); err != nil {
			return err
		}
	}
	return nil
}

func adminClient() (*kubernetes.Clientset, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfigPath("admin"))
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst = 100, 200
	// Errors of a server that is still starting are answers here, not news.
	cfg.WarningHandler = rest.NoWarnings{}
	return kubernetes.NewForConfig(cfg)
}
