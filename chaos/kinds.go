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
	slowStatus    = "the node's kubelet takes to contradict the controllers that gave it and its pods up: it tells its own state every 10 s or a quarter of the time that a silent node is believed in, whichever is less, and compares its pods' with the API every 10 s (nodeStatusUpdateFrequency; syncPeriod in pkg/kubelet/status)"
)
