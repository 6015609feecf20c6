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
