package scenarios

// systemFaults break what the pods stand on, or how they are replaced.
func systemFaults() Vocabulary {
	return Vocabulary{
		{Name: "apiServerOutage", Fault: true, Lasting: true, Doc: "takes the API server away while data traffic lives", Params: []Param{lasts, bound}},
		{Name: "dnsFailure", Fault: true, Lasting: true, Doc: "makes names fail in the cluster's DNS", Params: []Param{
			{Name: "names", Type: TypeTexts, Required: true, Doc: "the names, with * for any part; without a dot: of Services in Teleport's namespace"},
			{Name: "answer", Type: TypeChoice, Default: "nxdomain", Allowed: []string{"nxdomain", "servfail", "timeout", "stale"}, Doc: "given instead; stale: the addresses of the beginning, whatever becomes of them"}, lasts, bound,
		}},
		{Name: "rolloutStuck", Fault: true, Lasting: true, Doc: "begins a rollout that cannot finish; healed by going back", Params: []Param{
			{Name: "component", Type: TypeText, Required: true, Doc: "auth, proxy or agent"},
			{Name: "how", Type: TypeChoice, Default: "image", Allowed: []string{"image", "readiness", "config", "init", "quota", "antiAffinity"}, Doc: "an image that cannot be pulled, a readiness that never comes, a configuration that does not parse, an init container that waits for ever, or no room"}, lasts, bound,
		}},
		{Name: "reconnectStorm", Fault: true, Doc: "cuts all connections of one side at once", Params: []Param{
			{Name: "who", Type: TypeChoice, Default: "agents", Allowed: []string{"agents", "clients"}, Doc: "whose"}, bound,
		}},
		{Name: "volumeFull", Fault: true, Lasting: true, Hits: HitsPods, Doc: "leaves no room in a directory: no new file, no longer one", Params: []Param{
			selectPods, {Name: "path", Type: TypeText, Default: "/var/lib/teleport", Doc: "in the container"},
			{Name: "container", Type: TypeText, Doc: "left out: the pod's first"}, lasts, bound,
		}},
		{Name: "volumeReadOnly", Fault: true, Lasting: true, Hits: HitsPods, Doc: "makes a directory unwritable", Params: []Param{
			selectPods, {Name: "path", Type: TypeText, Default: "/var/lib/teleport/log/upload", Doc: "in the container"},
			{Name: "container", Type: TypeText, Doc: "left out: the pod's first"}, lasts, bound,
		}},
		{Name: "resourceStress", Fault: true, Lasting: true, Hits: HitsPods, Doc: "takes CPU and memory away in a pod", Params: []Param{
			selectPods,
			{Name: "cpus", Type: TypeCount, Default: "1", Max: 256, Doc: "busy threads"},
			{Name: "memory", Type: TypeSize, Default: "0", Doc: "bytes held"},
			{Name: "files", Type: TypeCount, Max: 1e6, Doc: "descriptors that the main process may still open; left out: as before"},
			{Name: "container", Type: TypeText, Doc: "left out: the pod's first"}, lasts, bound,
		}},
		{Name: "clockSkew", Fault: true, Lasting: true, Hits: HitsPods, Doc: "sets the clock of chosen processes off", Params: []Param{
			selectPods,
			{Name: "by", Type: TypeDuration, Required: true, Doc: "how far, in whole seconds"},
			{Name: "direction", Type: TypeChoice, Default: "forward", Allowed: []string{"forward", "back"}, Doc: "which way"},
			{Name: "container", Type: TypeText, Doc: "left out: the pod's first"}, lasts, bound,
		}},
		{Name: "backendFailure", Fault: true, Lasting: true, Hits: HitsPods, Doc: "makes a backend such as etcd slow, silent or leaderless", Params: []Param{
			selectPods,
			{Name: "how", Type: TypeChoice, Default: "paused", Allowed: []string{"paused", "slow", "noLeader"}, Doc: "stopped; stopped again and again for delay; members that do not reach one another"},
			{Name: "delay", Type: TypeDuration, Default: "200ms", Doc: "of slow: the longest that a request waits for its turn"},
			{Name: "container", Type: TypeText, Doc: "left out: the pod's first"}, lasts, bound,
		}},
		{Name: "nodePoolUpdate", Fault: true, Hits: HitsNodes, Doc: "drains and replaces nodes one by one, as a cloud does", Params: []Param{
			selectNodes, {Name: "timeout", Type: TypeDuration, Default: "3m", Doc: "for each node"},
		}},
	}
}
