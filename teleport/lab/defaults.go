// Package lab fills in what a trial of a Teleport chart needs and its author did not say: each value with its
// reason, for a plan to show. What the author did say wins.
package lab

import (
	"fmt"
	"slices"

	"shakedown.dev/shakedown/teleport/helm"
)

// Facts are what the defaults depend on.
type Facts struct {
	Release      string
	Namespace    string
	StorageClass string // the cluster's default; empty: it has none
	LoadBalancer bool   // whether Services of type LoadBalancer get an address here
	Standin      bool   // the chart is the stand-in's
	// AgentToken is the static token agents join with. It is a secret: Default shows it masked.
	AgentToken string
}

// ProxyHost is the in-cluster name of the proxies' Service.
func (f Facts) ProxyHost() string { return f.Release + "." + f.Namespace + ".svc.cluster.local" }

// AuthHost is the in-cluster name of the auths' Service.
func (f Facts) AuthHost() string { return f.Release + "-auth." + f.Namespace + ".svc.cluster.local" }

// TLSSecret is the name of the proxies' TLS secret, if the author names none.
func (f Facts) TLSSecret() string { return f.Release + "-tls" }

// Default is one value that was filled in.
type Default struct {
	Path   string // dotted
	Value  any
	Reason string
}

// rule is one value the lab would like.
type rule struct {
	path   []string
	reason string
	value  func(Facts, helm.Values) any // nil: not wanted now
	adds   bool                         // to what the author says, instead of giving way to it
}

// Fill gives the author's values completed, and what was added, in a fixed order.
func Fill(f Facts, author helm.Values) (helm.Values, []Default) {
	values := helm.Merge(author, nil)
	var added []Default
	for _, r := range rules() {
		if _, said := helm.Get(values, r.path...); said && !r.adds {
			continue
		}
		value := r.value(f, values)
		if value == nil {
			continue
		}
		values = helm.Merge(values, helm.Set(value, r.path...))
		added = append(added, Default{Path: dotted(r.path), Value: shown(r.path, value), Reason: r.reason})
	}
	return values, added
}

func rules() []rule {
	return []rule{
		{path: []string{"clusterName"}, reason: "agents join at the name that the proxies give out; under any name but the Service's own they are sent elsewhere and never join",
			value: func(f Facts, _ helm.Values) any { return f.ProxyHost() }},
		{path: []string{"proxyListenerMode"}, reason: "one port carries SSH, tunnels and Kubernetes",
			value: func(Facts, helm.Values) any { return "multiplex" }},
		{path: []string{"tls", "existingSecretName"}, reason: "the chart runs one proxy only unless they share a certificate; a self-signed one is made",
			value: func(f Facts, v helm.Values) any { return when(proxies(v) != 1, f.TLSSecret()) }},
		{path: []string{"insecureSkipProxyTLSVerify"}, reason: "the certificate is self-signed",
			value: func(f Facts, v helm.Values) any { return when(secretOf(v) == f.TLSSecret() || secretOf(v) == "", true) }},
		{path: []string{"service", "type"}, reason: "no load balancer gives addresses here: Helm would wait for one in vain",
			value: func(f Facts, _ helm.Values) any { return when(!f.LoadBalancer, "ClusterIP") }},
		{path: []string{"persistence", "enabled"}, reason: "the cluster has no default StorageClass: a claim would stay Pending",
			value: func(f Facts, _ helm.Values) any { return when(f.StorageClass == "", false) }},
		{path: []string{"auth", "highAvailability", "replicaCount"}, reason: "teleport-cluster 13 lets the proxies' replica count leak into the auth's",
			value: func(_ Facts, v helm.Values) any { return authsIfUnsaid(v) }},
		{path: []string{"persistence", "enabled"}, reason: "several auths keep their state in etcd, and one claim would tie them to one node",
			value: func(f Facts, v helm.Values) any { return when(f.Standin && Auths(v) > 1, false) }},
		{path: []string{"etcd", "enabled"}, reason: "several auths need storage that they share",
			value: func(f Facts, v helm.Values) any { return when(f.Standin && Auths(v) > 1, true) }},
		{path: []string{"auth", "teleportConfig", "auth_service", "tokens"}, reason: "agents join with a static token",
			adds: true, value: agentToken},
	}
}

// agentToken is the author's static tokens with the agents' among them; nil if there is none or it is there.
func agentToken(f Facts, v helm.Values) any {
	got, _ := helm.Get(v, "auth", "teleportConfig", "auth_service", "tokens")
	tokens, _ := got.([]any)
	token := any("node:" + f.AgentToken)
	if f.AgentToken == "" || slices.Contains(tokens, token) {
		return nil
	}
	return append(slices.Clone(tokens), token)
}

// when is value if the condition holds, else nothing.
func when(condition bool, value any) any {
	if condition {
		return value
	}
	return nil
}

func authsIfUnsaid(v helm.Values) any {
	if _, said := helm.Get(v, "proxy", "highAvailability", "replicaCount"); !said {
		return nil
	}
	return number(v, 1, "highAvailability", "replicaCount")
}

// Auths is how many auths the values ask for.
func Auths(v helm.Values) int {
	return number(v, number(v, 1, "highAvailability", "replicaCount"), "auth", "highAvailability", "replicaCount")
}

// proxies is how many proxies the values ask for; 0 if they leave it to the chart, which wants two if it may.
func proxies(v helm.Values) int {
	return number(v, number(v, 0, "highAvailability", "replicaCount"), "proxy", "highAvailability", "replicaCount")
}

func secretOf(v helm.Values) string {
	for _, path := range [][]string{{"proxy", "tls", "existingSecretName"}, {"tls", "existingSecretName"}} {
		if s, ok := helm.Get(v, path...); ok {
			return fmt.Sprint(s)
		}
	}
	return ""
}

// number reads an integer, however YAML or JSON gave it.
func number(v helm.Values, otherwise int, path ...string) int {
	got, _ := helm.Get(v, path...)
	switch n := got.(type) {
	case int:
		return n
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return otherwise
}

func dotted(path []string) string {
	s := path[0]
	for _, p := range path[1:] {
		s += "." + p
	}
	return s
}

func shown(path []string, value any) any {
	if path[len(path)-1] == "tokens" {
		return "[…]"
	}
	return value
}
