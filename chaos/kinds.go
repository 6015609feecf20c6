package chaos

// Kinds is the whole kit.
func Kinds() []Kind {
	return []Kind{
		podDelete, podEvict, containerSignal, containerPause,
		nodeDrain, nodeCordon, nodeTaint, nodeKill, nodePause, nodeRestart, nodePartition, nodePoolUpdate,
		partition, packetLoss, latency, bandwidth, connectionReset,
		apiServerOutage, dnsFailure, backendFailure, rolloutStuck, reconnectStorm,
		volumeFull, volumeReadOnly, resourceStress, clockSkew,
	}
}

// What healing may wait for, to stand after "as long as".
const (
	slowPods      = "the workload takes to start its pods and to make them ready"
	slowBoot      = "the node takes to boot and its kubelet to start every container anew"
	slowReconnect = "the others take to connect again, by their own backoff"
	slowStatus    = "the node's kubelet takes to contradict the controller that took its pods for not ready: it compares what it knows with the API every 10 s (syncPeriod in pkg/kubelet/status)"
)
