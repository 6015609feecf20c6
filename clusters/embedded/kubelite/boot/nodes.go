package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"shakedown.dev/shakedown/clusters/embedded/kubelite/node"
)

// nodeFlags are the namespaces that make a node: one process at the head of
// them (the kubelet) and the kernel ends all the others with it.
const nodeFlags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

type nodeState string

const (
	nodeRunning     nodeState = "running"
	nodePaused      nodeState = "paused"
	nodeKilled      nodeState = "killed"
	nodePartitioned nodeState = "partitioned"
)

// machine is one real node.
type machine struct {
	plan nodePlan
	mu   sync.Mutex // held while something is done to the node
	// state is what was last done to the node; a partition is kept apart
	// because a partitioned node can be paused too.
	state nodeState
	cut   bool
}

func (n *machine) said() string {
	if n.state == nodeRunning && n.cut {
		return string(nodePartitioned)
	}
	return string(n.state)
}

// joinNodes starts all nodes at once and waits until the API calls them Ready.
func (c *cluster) joinNodes(ctx context.Context) error {
	for i := 1; i <= c.spec.Nodes; i++ {
		n := &machine{plan: planNode(i)}
		if err := c.creds.forNode(n.plan.name, n.plan.address.String()); err != nil {
			return err
		}
		if err := c.powerOn(n); err != nil {
			return err
		}
		c.nodesMu.Lock()
		c.nodes = append(c.nodes, n)
		c.nodesMu.Unlock()
	}
	var g errgroup.Group
	g.Go(func() error { return c.awaitReady(ctx) })
	g.Go(func() error {
		if err := createObjects(ctx); err != nil {
			return err
		}
		return c.startControllers()
	})
	return g.Wait()
}

// powerOn starts a node that is not there: its namespaces, kubelet and
// kube-proxy. Its disk, if it had one before, is still there.
func (c *cluster) powerOn(n *machine) error {
	ns, err := plugIn(n.plan)
	if err != nil {
		return err
	}
	defer ns.Close()
	file, err := c.writeNodeConfig(n.plan)
	if err != nil {
		return err
	}
	if _, err := c.start(spawn{name: n.plan.name, args: []string{"node", file}, netns: &ns, flags: nodeFlags, env: nodeEnv(c.grace)}); err != nil {
		return err
	}
	n.state = nodeRunning
	return nil
}

func (c *cluster) writeNodeConfig(p nodePlan) (string, error) {
	cfg := node.Config{
		Name: p.name, Cluster: c.spec.Name, Address: p.address.String(), PodCIDR: p.pods.String(),
		Kubeconfig:  kubeconfigPath(p.name),
		ClientCA:    filepath.Join(pkiDir(), "ca.crt"),
		TLSCert:     filepath.Join(pkiDir(), p.name+".crt"),
		TLSKey:      filepath.Join(pkiDir(), p.name+".key"),
		Dir:         nodeDir(p.name),
		ImageSocket: imagesSocket(),
		ClusterDNS:  dnsServiceIP, ClusterDomain: clusterDomain,
		ResolvConf: filepath.Join(stateDir, "resolv.conf"),
		Proxy:      proxySpawn("", p.name).args,
		ProxyLog:   logPath(p.name + "-proxy"),
		StateDir:   stateDir,
		Labels:     c.spec.Labels, MonitorGrace: c.grace,
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return "", err
	}
	data, err := json.Marshal(cfg)
	if err != nil {
		return "", err
	}
	file := filepath.Join(cfg.Dir, "node.json")
	return file, os.WriteFile(file, data, 0o600)
}

// awaitReady returns when every real node is Ready, and writes down its pod
// range, which the kubelet knows and the API should.
func (c *cluster) awaitReady(ctx context.Context) error {
	for _, n := range c.nodes {
		err := c.await(ctx, n.plan.name+" ready", func(ctx context.Context) error {
			got, err := c.client.CoreV1().Nodes().Get(ctx, n.plan.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			return ready(got)
		})
		if err != nil {
			return err
		}
		if err := c.publishPodCIDR(ctx, n.plan); err != nil {
			return err
		}
	}
	return nil
}

func ready(n *corev1.Node) error {
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			if cond.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("%s: %s", cond.Reason, cond.Message)
		}
	}
	return fmt.Errorf("no Ready condition yet")
}

func (c *cluster) publishPodCIDR(ctx context.Context, p nodePlan) error {
	patch := fmt.Sprintf(`{"spec":{"podCIDR":%q,"podCIDRs":[%q]}}`, p.pods, p.pods)
	_, err := c.client.CoreV1().Nodes().Patch(ctx, p.name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("pod range of %s: %w", p.name, err)
	}
	return nil
}

// joinHollow starts the hollow nodes, one process for all of them, and waits
// until they are Ready.
func (c *cluster) joinHollow(ctx context.Context) error {
	files, err := c.writeHollowConfig()
	if err != nil {
		return err
	}
	if _, err := c.start(spawn{name: "hollow", args: []string{"hollow", files}, flags: syscall.CLONE_NEWNS, env: smallHeap}); err != nil {
		return err
	}
	return c.await(ctx, "hollow nodes ready", func(ctx context.Context) error {
		time.Sleep(500 * time.Millisecond) // a list of hundreds of nodes costs the API server more than it tells
		list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: node.HollowLabel, ResourceVersion: "0"})
		if err != nil {
			return err
		}
		up := 0
		for i := range list.Items {
			if ready(&list.Items[i]) == nil {
				up++
			}
		}
		if up < c.spec.HollowNodes {
			return fmt.Errorf("%d of %d ready", up, c.spec.HollowNodes)
		}
		return nil
	})
}

func (c *cluster) writeHollowConfig() (string, error) {
	dir := filepath.Join(stateDir, "hollow")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	cfg := node.HollowConfig{Dir: dir, Server: apiURL, CA: filepath.Join(pkiDir(), "ca.crt"), CAKey: filepath.Join(pkiDir(), "ca.key"),
		Count: c.spec.HollowNodes, NodeIP: apiAddress, MonitorGrace: c.grace}
	data, err := json.Marshal(cfg)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "hollow.json")
	return file, os.WriteFile(file, data, 0o600)
}

// awaitServices returns when DNS answers, a default StorageClass is there and
// the namespace default can take pods: whoever comes first must not stumble.
func (c *cluster) awaitServices(ctx context.Context) error {
	if err := c.await(ctx, "DNS", dnsAnswers); err != nil {
		return err
	}
	err := c.await(ctx, "default StorageClass", func(ctx context.Context) error {
		list, err := c.client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) == 0 {
			err = fmt.Errorf("none yet")
		}
		return err
	})
	if err != nil {
		return err
	}
	// Without it the API server refuses every pod of the namespace.
	return c.await(ctx, "default service account", func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}
