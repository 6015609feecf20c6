package scenarios

// systemFaults break what the pods stand on, or how they are replaced.
func systemFaults() Vocabulary {
	return Vocabulary{
		{Name: "apiServerOutage", Fault: true, Lasting: true, Doc: "takes the API server away while data traffic lives", Params: []Param{lasts, bound}},
		{Name: "dnsFailure", Fault: true, Lasting: true, Doc: "makes names fail in the cluster's DNS", Params: []Param{
			{Name: "names", Type: TypeTexts, Required: true, Doc: "the names, with * for any part"},
			{Name: "answer", Type: TypeChoice, Default: "nxdomain", Allowed: []string{"nxdomain", "servfail", "timeout"}, Doc: "given instead"}, lasts, bound,
		}},
		{Name: "rolloutStuck", Fault: true, Lasting: true, Doc: "begins a rollout that cannot finish; healed by going back", Params: []Param{
			{Name: "component", Type: TypeText, Required: true, Doc: "auth, proxy or agent"},
			{Name: "how", Type: TypeChoice, Default: "image", Allowed: []string{"image", "readiness", "config", "init", "quota", "antiAffinity"}, Doc: "an image that cannot be pulled, a readiness that never comes, a configuration that does not parse, an init container that waits for ever, or no room"}, lasts, bound,
		}},
		{Name: "reconnectStorm", Fault: true, Doc: "cuts all connections of one side at once", Params: []Param{
			{Name: "who", Type: TypeChoice, Default: "agents", Allowed: []string{"agents", "clients"}, Doc: "whose"}, bound,
		}},
		{Name: "volumeFull", Fault: true, Lasting: true, Hits: HitsPods, Doc: "fills a data volume", Params: []Param{
			selectPods, {Name: "path", Type: TypeText, Default: "/var/lib/teleport", Doc: "in the container"}, lasts, bound,
		}},
		{Name: "volumeReadOnly", Fault: true, Lasting: true, Hits: HitsPods, Doc: "makes a directory unwritable", Params: []Param{
			selectPods, {Name: "path", Type: TypeText, Default: "/var/lib/teleport/log/upload", Doc: "in the container"}, lasts, bound,
		}},
		{Name: "resourceStress", Fault: true, Lasting: true, Hits: HitsPods, Doc: "takes CPU and memory away in a pod", Params: []Param{
			selectPods,
			{Name: "cpus", Type: TypeCount, Default: "1", Max: 256, Doc: "busy threads"},
			{Name: "memory", Type: TypeSize, Default: "0", Doc: "bytes held"}, lasts, bound,
		}},
		{Name: "clockSkew", Fault: true, Lasting: true, Hits: HitsPods, Doc: "sets the clock of chosen processes off", Params: []Param{
			selectPods,
			{Name: "by", Type: TypeDuration, Required: true, Doc: "how far"},
			{Name: "direction", Type: TypeChoice, Default: "forward", Allowed: []string{"forward", "back"}, Doc: "which way"}, lasts, bound,
		}},
		{Name: "nodePoolUpdate", Fault: true, Hits: HitsNodes, Doc: "drains and replaces nodes one by one, as a cloud does", Params: []Param{
			selectNodes, {Name: "timeout", Type: TypeDuration, Default: "3m", Doc: "for each node"},
		}},
	}
}
