package boot

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/knftables"
)

// Partitions are rules in one nftables table of the cluster's namespace, where
// every packet between nodes and to the API server passes. They drop in both
// directions and keep no state, so that established connections are cut too.

const firewallTable = "shakedown"

// hooks are where a packet of a node can pass: to another node, to the
// cluster's own namespace, from there.
var hooks = []knftables.BaseChainHook{knftables.ForwardHook, knftables.InputHook, knftables.OutputHook}

// openFirewall makes the table, with an empty chain for each node in each hook.
// They come before kube-proxy's, so that a cut is a cut whatever a Service
// rewrites.
func openFirewall(nodes int) error {
	return firewall(func(tx *knftables.Transaction) {
		tx.Add(&knftables.Table{})
		for _, hook := range hooks {
			tx.Add(&knftables.Chain{
				Name: string(hook), Type: knftables.PtrTo(knftables.FilterType), Hook: knftables.PtrTo(hook),
				Priority: knftables.PtrTo(knftables.BaseChainPriority("-200")),
			})
			for i := 1; i <= nodes; i++ {
				chain := chainOf(planNode(i), hook)
				tx.Add(&knftables.Chain{Name: chain})
				tx.Add(&knftables.Rule{Chain: string(hook), Rule: "jump " + chain})
			}
		}
	})
}

// cutOff drops what passes between n and peers; with api between n and the
// cluster's own namespace; with all whatever crosses n's link. It replaces an
// earlier cut of n.
func cutOff(n nodePlan, peers []nodePlan, api, all bool) error {
	return firewall(func(tx *knftables.Transaction) {
		flush(tx, n)
		if all {
			drop(tx, n, knftables.ForwardHook, "iifname", n.link)
			drop(tx, n, knftables.ForwardHook, "oifname", n.link)
		}
		if api || all {
			drop(tx, n, knftables.InputHook, "iifname", n.link)
			drop(tx, n, knftables.OutputHook, "oifname", n.link)
		}
		for _, p := range peers {
			drop(tx, n, knftables.ForwardHook, "iifname", n.link, "oifname", p.link)
			drop(tx, n, knftables.ForwardHook, "iifname", p.link, "oifname", n.link)
		}
	})
}

// joinAgain removes n's rules.
func joinAgain(n nodePlan) error {
	return firewall(func(tx *knftables.Transaction) { flush(tx, n) })
}

func chainOf(n nodePlan, hook knftables.BaseChainHook) string { return n.name + "-" + string(hook) }

func flush(tx *knftables.Transaction, n nodePlan) {
	for _, hook := range hooks {
		tx.Flush(&knftables.Chain{Name: chainOf(n, hook)})
	}
}

func drop(tx *knftables.Transaction, n nodePlan, hook knftables.BaseChainHook, match ...any) {
	tx.Add(&knftables.Rule{Chain: chainOf(n, hook), Rule: knftables.Concat(append(match, "counter", "drop")...)})
}

// firewall runs one transaction; either all of it holds or nothing.
func firewall(change func(*knftables.Transaction)) error {
	nft, err := knftables.New(knftables.InetFamily, firewallTable)
	if err != nil {
		return fmt.Errorf("nftables: %w (Debian: apt-get install nftables)", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tx := nft.NewTransaction()
	change(tx)
	return nft.Run(ctx, tx)
}
