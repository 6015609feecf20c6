package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Network faults are rules in an nftables table of their own in the network namespace of the node that a
// pod is on, through which every packet of the pod passes, also those to its neighbours. They come before
// all others (priority -300), count what they do, and go with the node.

const (
	whereNft = "clusters that run programs on their nodes (embedded, kind), with nftables"
	noTable  = "the table of rules is gone from the nodes, and the workloads have all replicas ready"
)

const (
	addTable  = onNode + `printf '%s' "$2" | node "$1" nft -f -`
	dropTable = onNode + `node "$1" nft delete table inet "$2"`
	tableGone = onNode + `(node "$1" nft list table inet "$2") >/dev/null 2>&1 && exit 1; exit 0`
	listTable = onNode + `node "$1" nft -j list table inet "$2"`
	tryNft    = `nft list tables >/dev/null`
	tryNetem  = `unshare -n tc qdisc add dev lo root netem delay 1ms`
)

var partition = Kind{
	Name: "partition", Proof: "packets between the two were dropped, by the rules' counters", Healed: noTable, Where: whereNft,
	Example:   "partition: {select: {component: proxy, count: 1}, from: {component: auth, all: true}, for: 30s}",
	available: needs("nftables", tryNft),
	inject: filtering("drop packets of", func(ctx context.Context, s *Site) (func(ip string) []string, error) {
		others, err := s.partners(ctx)
		direction := s.Do.Args.String("direction")
		return func(ip string) (rules []string) {
			if direction != "in" {
				rules = append(rules, strings.TrimSpace("ip saddr "+ip+" "+among("ip daddr", others))+" counter drop")
			}
			if direction != "out" {
				rules = append(rules, strings.TrimSpace("ip daddr "+ip+" "+among("ip saddr", others))+" counter drop")
			}
			return rules
		}, err
	}),
}

var packetLoss = Kind{
	Name: "packetLoss", Proof: "packets were dropped, by the rules' counters", Healed: noTable, Where: whereNft,
	Example:   "packetLoss: {select: {component: proxy, all: true}, share: 5%, for: 1m}",
	available: needs("nftables", tryNft),
	inject: filtering("lose packets of", func(_ context.Context, s *Site) (func(ip string) []string, error) {
		random := fmt.Sprintf("numgen random mod 10000 < %d counter drop", int(math.Round(s.Do.Args.Float("share")*10000)))
		return func(ip string) []string {
			return []string{"ip saddr " + ip + " " + random, "ip daddr " + ip + " " + random}
		}, nil
	}),
}

var bandwidth = Kind{
	Name: "bandwidth", Proof: "packets above the rate were dropped, by the rule's counter; without any the pod never wanted more", Healed: noTable, Where: whereNft,
	Example:   "bandwidth: {select: {component: proxy, count: 1}, rate: 64KiB/s, for: 1m}",
	available: needs("nftables", tryNft),
	inject: filtering("limit the rate of", func(_ context.Context, s *Site) (func(ip string) []string, error) {
		// A policer and not a shaper: nothing is queued, so that no link of the cluster is changed.
		limit := fmt.Sprintf("limit rate over %d bytes/second burst %d bytes counter drop", s.Do.Args.Int("rate"), max(s.Do.Args.Int("rate")/10, 3000))
		return func(ip string) []string { return []string{"ip saddr " + ip + " " + limit} }, nil
	}),
}

// partners are the addresses that the parameter from selects; none means everybody.
func (s *Site) partners(ctx context.Context) ([]string, error) {
	if s.Do.Selects["from"] == nil {
		return nil, nil
	}
	pods, err := s.Pods(ctx, "from")
	var out []string
	for _, p := range pods {
		out = append(out, p.Status.PodIP)
	}
	return out, err
}

func among(what string, addresses []string) string {
	if len(addresses) == 0 {
		return ""
	}
	return what + " { " + strings.Join(addresses, ", ") + " }"
}

// filter is rules for some pods, a table on each node that carries one.
type filter struct {
	site   *Site
	table  string
	nodes  []string
	owners []owner
	began  time.Time
}

// filtering is a fault that rules make; rulesOf gives those for one pod's address.
func filtering(verb string, rulesOf func(context.Context, *Site) (func(ip string) []string, error)) func(context.Context, *Site) (Injection, error) {
	return func(ctx context.Context, s *Site) (Injection, error) {
		rules, err := rulesOf(ctx, s)
		if err != nil {
			return nil, err
		}
		pods, err := s.HitPods(ctx)
		if err != nil {
			return nil, err
		}
		f := &filter{site: s, table: "shakedown_" + hash(s.Run+"/"+s.ID), began: time.Now()}
		byNode := map[string][]string{}
		names := map[string][]string{}
		for i := range pods {
			if o, err := s.ownerOf(ctx, &pods[i]); err == nil {
				f.owners = append(f.owners, o)
			}
			node := pods[i].Spec.NodeName
			byNode[node] = append(byNode[node], rules(pods[i].Status.PodIP)...)
			names[node] = append(names[node], pods[i].Name)
		}
		f.nodes = sortedKeys(byNode)
		e := effect{site: s, settle: f.counted, healed: f.gone}
		for _, node := range f.nodes {
			what := fmt.Sprintf("%s %s", verb, strings.Join(names[node], ", "))
			err := s.command(ctx, what, shell(addTable, node, f.rules(byNode[node])), shell(dropTable, node, f.table), shell(tableGone, node, f.table))
			if err != nil {
				return e, err
			}
		}
		return e, nil
	}
}

// rules is the table as nft reads it. A packet of a pod is forwarded, or the node itself is its other end.
func (f *filter) rules(rules []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s {\n", f.table)
	for _, hook := range []string{"forward", "input", "output"} {
		fmt.Fprintf(&b, "chain %s {\ntype filter hook %s priority -300;\n%s\n}\n", hook, hook, strings.Join(rules, "\n"))
	}
	b.WriteString("}\n")
	return b.String()
}

var packets = regexp.MustCompile(`"packets": ?(\d+)`)

// counted sees the rules' counters go above 0 on every node.
func (f *filter) counted(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		var said []string
		for _, node := range f.nodes {
			listed, err := f.site.sh(ctx, listTable, node, f.table)
			if err != nil {
				return "", err
			}
			sum := 0
			for _, m := range packets.FindAllStringSubmatch(listed, -1) {
				n, _ := strconv.Atoi(m[1])
				sum += n
			}
			if sum == 0 {
				return "", fmt.Errorf("no packet was dropped on %s: the rules met none", node)
			}
			said = append(said, fmt.Sprintf("%s dropped on %s", count(sum, "packet"), node))
		}
		return fmt.Sprintf("%s, %s after the start", strings.Join(said, ", "), seconds(time.Since(f.began))), nil
	})
}

func (f *filter) gone(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		for _, node := range f.nodes {
			if _, err := f.site.sh(ctx, tableGone, node, f.table); err != nil {
				return "", fmt.Errorf("the rules on %s: %w", node, err)
			}
		}
		ready, err := f.site.allReady(ctx, f.owners)
		return fmt.Sprintf("no rules on %s; %s", strings.Join(f.nodes, ", "), ready), err
	})
}

var latency = Kind{
	Name: "latency", Proof: "packets went through the delaying queue, by its counter", Healed: "the queue is gone from the pods' links, and the workloads have all replicas ready",
	Where:     "clusters that run programs on their nodes (embedded, kind), where the kernel has netem",
	Example:   "latency: {select: {component: auth, all: true}, delay: 100ms, jitter: 20ms, for: 1m}",
	available: needs("the kernel's netem", tryNetem),
	inject:    injectLatency,
}

const (
	// link finds the node's end of a pod's link by the route to its address.
	link       = onNode + `dev() { (node "$1" ip route get "$2") | sed -n 's/.* dev \([^ ]*\).*/\1/p'; }; d=$(dev "$1" "$2"); `
	addDelay   = link + `[ -n "$d" ] && node "$1" tc qdisc add dev "$d" root netem delay "$3" "$4"`
	dropDelay  = link + `[ -n "$d" ] && node "$1" tc qdisc del dev "$d" root`
	delayGone  = link + `[ -z "$d" ] && exit 0; (node "$1" tc qdisc show dev "$d") 2>/dev/null | grep -q netem && exit 1; exit 0`
	countDelay = link + `node "$1" tc -s -j qdisc show dev "$d"`
)

// injectLatency delays what goes to the pods.
func injectLatency(ctx context.Context, s *Site) (Injection, error) {
	pods, err := s.HitPods(ctx)
	if err != nil {
		return nil, err
	}
	f := &filter{site: s, began: time.Now()}
	e := effect{site: s, settle: func(ctx context.Context) (string, error) { return f.delayed(ctx, pods) },
		healed: func(ctx context.Context) (string, error) { return f.quick(ctx, pods) }}
	for i := range pods {
		p := &pods[i]
		if o, err := s.ownerOf(ctx, p); err == nil {
			f.owners = append(f.owners, o)
		}
		at := []string{p.Spec.NodeName, p.Status.PodIP}
		err := s.command(ctx, "delay packets to "+p.Name,
			shell(addDelay, append(at, milliseconds(s.Do.Args.Duration("delay")), milliseconds(s.Do.Args.Duration("jitter")))...),
			shell(dropDelay, at...), shell(delayGone, at...))
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dus", d.Microseconds()) }

func (f *filter) delayed(ctx context.Context, pods []corev1.Pod) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		total := 0
		for _, p := range pods {
			said, err := f.site.sh(ctx, countDelay, p.Spec.NodeName, p.Status.PodIP)
			if err != nil {
				return "", err
			}
			var queues []struct {
				Kind    string `json:"kind"`
				Packets int    `json:"packets"`
			}
			if err := json.Unmarshal([]byte(said), &queues); err != nil {
				return "", fmt.Errorf("read the counters of %s: %w", p.Name, err)
			}
			n := 0
			for _, q := range queues {
				if q.Kind == "netem" {
					n += q.Packets
				}
			}
			if n == 0 {
				return "", fmt.Errorf("no packet to %s was delayed", p.Name)
			}
			total += n
		}
		return count(total, "packet") + " went through the delaying queues", nil
	})
}

func (f *filter) quick(ctx context.Context, pods []corev1.Pod) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		for _, p := range pods {
			if _, err := f.site.sh(ctx, delayGone, p.Spec.NodeName, p.Status.PodIP); err != nil {
				return "", fmt.Errorf("the queue of %s: %w", p.Name, err)
			}
		}
		ready, err := f.site.allReady(ctx, f.owners)
		return "no delaying queue; " + ready, err
	})
}
