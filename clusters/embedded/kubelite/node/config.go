package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

// Config is one node as kubelite init describes it. All paths are of the
// cluster's private file system unless they say otherwise.
type Config struct {
	Name          string            `json:"name"`
	Cluster       string            `json:"cluster"`
	Address       string            `json:"address"` // of the node, on the wire
	PodCIDR       string            `json:"podCIDR"`
	Kubeconfig    string            `json:"kubeconfig"`
	ClientCA      string            `json:"clientCA"`
	TLSCert       string            `json:"tlsCert"`
	TLSKey        string            `json:"tlsKey"`
	Dir           string            `json:"dir"`      // the node's own, survives a reboot of the node
	StateDir      string            `json:"stateDir"` // where the private file system is mounted
	ImageSocket   string            `json:"imageSocket"`
	ClusterDNS    string            `json:"clusterDNS"`
	ClusterDomain string            `json:"clusterDomain"`
	ResolvConf    string            `json:"resolvConf"` // for pods with dnsPolicy Default
	Proxy         []string          `json:"proxy"`      // arguments of kubelite that start the node's kube-proxy
	ProxyLog      string            `json:"proxyLog"`
	Labels        map[string]string `json:"labels,omitempty"`
	// MonitorGrace is how long the node controller believes in a silent node; 0: as Kubernetes has it.
	MonitorGrace time.Duration `json:"monitorGrace,omitempty"`
}

func (c Config) kubeletDir() string { return filepath.Join(c.Dir, "kubelet") }
func (c Config) podLogs() string    { return filepath.Join(c.Dir, "pod-logs") }
func (c Config) runtimeDir() string { return filepath.Join(c.Dir, "runtime") }

// HollowConfig describes the hollow nodes, which share one process.
type HollowConfig struct {
	Dir    string `json:"dir"`
	Server string `json:"server"`
	CA     string `json:"ca"`    // signs the identities of the hollow nodes
	CAKey  string `json:"caKey"` //
	Count  int    `json:"count"`
	NodeIP string `json:"nodeIP"` // that of all of them: they share a network
	// MonitorGrace is as in Config.
	MonitorGrace time.Duration `json:"monitorGrace,omitempty"`
}

// readConfig decodes the one file that args names.
func readConfig(args []string, into any) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: kubelite node|hollow FILE")
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}

// beat makes a kubelet speak up often enough for a node controller that waits
// only for grace: it renews its lease four times in the lease's length, as with
// Kubernetes' own 40 s for both.
func beat(c *kubeletconfig.KubeletConfiguration, grace time.Duration) {
	if grace <= 0 {
		return
	}
	c.NodeLeaseDurationSeconds = int32(max(1, grace.Seconds()))
	c.NodeStatusUpdateFrequency.Duration = min(c.NodeStatusUpdateFrequency.Duration, max(time.Second, grace/4))
}
