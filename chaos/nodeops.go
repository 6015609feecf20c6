package chaos

import (
	"context"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/undo"
)

const (
	whereNodes   = "clusters whose provider can do it to nodes: embedded; others say so"
	notReady     = "the API has the node's condition Ready as not true, which a controller sets when the kubelet is silent"
	readyAgain   = "the node is Ready again without the taints of an outage, and all pods on it of the workloads that had some there are ready"
	kubeletSpeak = "the kubelet accepts connections again and has renewed its lease; " + readyAgain + ", with containers that were started after the power cut"
)

var nodeKill = Kind{
	Name: "nodeKill", Proof: notReady, Healed: kubeletSpeak, Where: whereNodes,
	Example:   "nodeKill: {select: {node: {running: proxy}, count: 1}, for: 1m}",
	Slow:      slowBoot,
	available: can(clusters.NodeKill, clusters.NodeRestart),
	inject:    injectKill,
}

var nodePause = Kind{
	Name: "nodePause", Proof: notReady, Healed: readyAgain, Where: whereNodes,
	Example:   "nodePause: {select: {node: {running: auth}, count: 1}, for: 1m}",
	Slow:      slowStatus,
	available: can(clusters.NodePause, clusters.NodeResume),
	inject: operate(undo.NodePaused, "pause", func(ctx context.Context, op clusters.NodeOperator, node string) error {
		return op.Pause(ctx, node)
	}),
}

var nodePartition = Kind{
	Name: "nodePartition", Proof: notReady, Healed: readyAgain, Where: whereNodes,
	Example:   "nodePartition: {select: {node: {running: proxy}, count: 1}, for: 1m}",
	Slow:      slowStatus,
	available: can(clusters.NodePartition, clusters.NodeHeal),
	inject: operate(undo.NodePartitioned, "partition", func(ctx context.Context, op clusters.NodeOperator, node string) error {
		return op.Partition(ctx, node)
	}),
}

var nodeRestart = Kind{
	Name: "nodeRestart", Proof: "a connection to the kubelet's port, from inside the cluster's network, is not accepted", Healed: kubeletSpeak, Where: whereNodes,
	Example:   "nodeRestart: {select: {node: {running: proxy}, count: 1}, down: 10s}",
	Slow:      slowBoot,
	available: can(clusters.NodeKill, clusters.NodeRestart),
	inject:    injectRestart,
}

// can is available if the provider can do all of the actions.
func can(actions ...clusters.NodeAction) func(context.Context, *Site) error {
	return func(_ context.Context, s *Site) error {
		for _, a := range actions {
			if _, err := s.operator(a); err != nil {
				return err
			}
		}
		return nil
	}
}
