package scenarios

import "slices"

// Parameters that many actions share.
var (
	selectPods  = Param{Name: "select", Type: TypePods, Required: true, Doc: "the pods"}
	selectNodes = Param{Name: "select", Type: TypeNodes, Required: true, Doc: "the nodes"}
	lasts       = Param{Name: "for", Type: TypeDuration, Doc: "how long it stays in force; left out: until a heal or the run's end"}
	bound       = Param{Name: "timeout", Type: TypeDuration, Default: "3m", Doc: "how long it may take to prove that it bites"}
)

// Words is the whole vocabulary as DESIGN.md and the chaos kit have it. A
// caller that cannot carry out some of it hands in less.
func Words() Vocabulary {
	return slices.Concat(changes(), podFaults(), nodeFaults(), networkFaults(), systemFaults())
}

// changes are what operators do on purpose.
func changes() Vocabulary {
	timeout := Param{Name: "timeout", Type: TypeDuration, Default: "10m", Doc: "Helm's own"}
	component := Param{Name: "component", Type: TypeText, Required: true, Doc: "auth, proxy or agent"}
	return Vocabulary{
		{Name: "helmUpgrade", Doc: "upgrades the release", Params: []Param{
			{Name: "to", Type: TypeChoice, Default: "target", Allowed: []string{"target", "current"}, Doc: "spec.teleport.to, or what is installed, with other values"},
			{Name: "values", Type: TypeTree, Doc: "laid over the values of to"},
			{Name: "rollbackOnFailure", Type: TypeBool, Default: "false", Doc: "Helm's --rollback-on-failure (--atomic before version 4)"},
			{Name: "expect", Type: TypeChoice, Default: "success", Allowed: []string{"success", "failure", "any"}, Doc: "what Helm should return"},
			timeout,
		}},
		{Name: "helmRollback", Doc: "rolls the release back", Params: []Param{
			{Name: "revision", Type: TypeCount, Default: "0", Doc: "Helm's revision number; 0: the one before"}, timeout,
		}},
		{Name: "restart", Doc: "replaces a component's pods, as kubectl rollout restart does", Params: []Param{component, timeout}},
		{Name: "scale", Doc: "changes a component's replicas", Params: []Param{
			component, {Name: "replicas", Type: TypeCount, Required: true, Doc: "from then on"}, timeout,
		}},
		{Name: "heal", Doc: "ends a fault that is in force", Params: []Param{
			{Name: "of", Type: TypeEntry, Required: true, Doc: "the entry that brought the fault"}, bound,
		}},
	}
}

func podFaults() Vocabulary {
	return Vocabulary{
		{Name: "podDelete", Fault: true, Hits: HitsPods, Doc: "deletes pods through the API", Params: []Param{
			selectPods,
			{Name: "gracePeriod", Type: TypeDuration, Doc: "0s: at once; left out: the pod's own"},
			{Name: "every", Type: TypeDuration, Default: "0s", Doc: "gap between one pod and the next; 0s: all at once"},
			bound,
		}},
		{Name: "podEvict", Fault: true, Hits: HitsPods, Doc: "evicts pods through the eviction API, which honours budgets", Params: []Param{
			selectPods, {Name: "gracePeriod", Type: TypeDuration, Doc: "left out: the pod's own"}, bound,
		}},
		{Name: "containerSignal", Fault: true, Hits: HitsPods, Doc: "sends a signal to a container's main process", Params: []Param{
			selectPods,
			{Name: "signal", Type: TypeChoice, Default: "KILL", Allowed: []string{"KILL", "TERM", "QUIT", "HUP", "INT"}, Doc: "without SIG"},
			{Name: "container", Type: TypeText, Doc: "left out: the pod's first"}, bound,
		}},
		{Name: "containerPause", Fault: true, Lasting: true, Hits: HitsPods, Doc: "stops a container's processes: alive for TCP, dead for users", Params: []Param{
			selectPods, {Name: "container", Type: TypeText, Doc: "left out: the pod's first"}, lasts, bound,
		}},
	}
}

func nodeFaults() Vocabulary {
	return Vocabulary{
		{Name: "nodeDrain", Fault: true, Lasting: true, Hits: HitsNodes, Doc: "cordons nodes and evicts their pods, as kubectl drain does", Params: []Param{
			selectNodes,
			{Name: "gracePeriod", Type: TypeDuration, Doc: "left out: each pod's own"},
			{Name: "force", Type: TypeBool, Default: "false", Doc: "deletes what nobody will bring back, too"}, lasts, bound,
		}},
		{Name: "nodeCordon", Fault: true, Lasting: true, Hits: HitsNothing, Doc: "makes nodes unschedulable", Params: []Param{selectNodes, lasts, bound}},
		{Name: "nodeTaint", Fault: true, Lasting: true, Hits: HitsNodes, Doc: "taints nodes", Params: []Param{
			selectNodes,
			{Name: "key", Type: TypeText, Default: "shakedown.dev/taint", Doc: "of the taint"},
			{Name: "effect", Type: TypeChoice, Default: "NoExecute", Allowed: []string{"NoExecute", "NoSchedule"}, Doc: "of the taint"}, lasts, bound,
		}},
		{Name: "nodeKill", Fault: true, Lasting: true, Hits: HitsNodes, Doc: "cuts the power: every process dies at once; healed by starting it again", Params: []Param{selectNodes, lasts, bound}},
		{Name: "nodePause", Fault: true, Lasting: true, Hits: HitsNodes, Doc: "freezes every process of nodes", Params: []Param{selectNodes, lasts, bound}},
		{Name: "nodeRestart", Fault: true, Hits: HitsNodes, Doc: "kills nodes and starts them again", Params: []Param{
			selectNodes, {Name: "down", Type: TypeDuration, Default: "10s", Doc: "how long they are away"}, bound,
		}},
	}
}

func networkFaults() Vocabulary {
	return Vocabulary{
		{Name: "partition", Fault: true, Lasting: true, Hits: HitsPods, Doc: "drops all packets between two selections", Params: []Param{
			{Name: "select", Type: TypePods, Required: true, Doc: "the pods that are cut off"},
			{Name: "from", Type: TypePods, Doc: "whom they cannot reach; left out: everybody"},
			{Name: "direction", Type: TypeChoice, Default: "both", Allowed: []string{"both", "in", "out"}, Doc: "seen from select"}, lasts, bound,
		}},
		{Name: "nodePartition", Fault: true, Lasting: true, Hits: HitsNodes, Doc: "drops all packets between nodes and the rest", Params: []Param{selectNodes, lasts, bound}},
		{Name: "packetLoss", Fault: true, Lasting: true, Hits: HitsPods, Doc: "drops a share of the packets", Params: []Param{
			selectPods, {Name: "share", Type: TypeShare, Required: true, Doc: "of the packets"}, lasts, bound,
		}},
		{Name: "latency", Fault: true, Lasting: true, Hits: HitsPods, Doc: "delays packets", Params: []Param{
			selectPods, {Name: "delay", Type: TypeDuration, Required: true, Doc: "added one way"},
			{Name: "jitter", Type: TypeDuration, Default: "0s", Doc: "at most so much more or less"}, lasts, bound,
		}},
		{Name: "bandwidth", Fault: true, Lasting: true, Hits: HitsPods, Doc: "limits how fast packets leave", Params: []Param{
			selectPods, {Name: "rate", Type: TypeByteRate, Required: true, Doc: "bytes a second"}, lasts, bound,
		}},
		{Name: "connectionReset", Fault: true, Hits: HitsPods, Doc: "resets the established connections of pods that live on", Params: []Param{
			selectPods, {Name: "share", Type: TypeShare, Default: "100%", Doc: "of the connections"}, bound,
		}},
	}
}
