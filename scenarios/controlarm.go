package scenarios

import (
	"fmt"
	"strings"
)

// The control arm stands on a node, beside Teleport. Were a fault to take that node away, what fails there would say
// nothing about the machine and the network any more, and the run could not be judged. So faults that choose their
// nodes spare it, and it is kept off the nodes that faults name.

// Named says whether the selection is about one certain node, so that none is spared.
func (n *NodeSelection) Named() bool { return n != nil && (n.Name != "" || n.Ordinal != nil) }

// Spares says whether the step's fault leaves the control arm's node alone.
func (s Step) Spares() bool {
	sel := s.nodesHit()
	return sel != nil && !sel.Named()
}

// nodesHit is what the step takes away, nil if that is not nodes.
func (s Step) nodesHit() *NodeSelection {
	if s.Do == nil || !s.Fault || s.Hits != HitsNodes || s.Do.Selects["select"] == nil {
		return nil
	}
	return s.Do.Selects["select"].Node
}

// NamedNodes are the selections of faults that name the node that they take away.
func NamedNodes(steps []Step) []NodeSelection {
	var out []NodeSelection
	for _, s := range steps {
		if sel := s.nodesHit(); sel.Named() {
			out = append(out, *sel)
		}
	}
	return out
}

// noneSpared says that the faults leave no node for the control arm, empty if they do.
func noneSpared(steps []Step, f Facts) string {
	names, ordinals := map[string]bool{}, map[int]bool{}
	for _, n := range NamedNodes(steps) {
		if n.Ordinal != nil {
			ordinals[*n.Ordinal] = true
		} else {
			names[n.Name] = true
		}
	}
	if f.Nodes == 0 || max(len(names), len(ordinals)) < f.Nodes {
		return ""
	}
	return fmt.Sprintf("faults name all %d nodes, one of which must carry the control arm: what they do to it would leave the run without a verdict; add a node to cluster.nodes", f.Nodes)
}

// tooFewBeside says that a fault wants more nodes than there are beside the control arm's.
func tooFewBeside(sel Selection, s Step, f Facts) []string {
	if !s.Spares() || f.Nodes == 0 || sel.Count < f.Nodes && f.Nodes > 1 {
		return nil
	}
	return []string{fmt.Sprintf("selects %s of %d, one of which carries the control arm and is spared: add a node to cluster.nodes", sel.amount(), f.Nodes)}
}

// control says what becomes of the control arm's node.
func (t *printer) control(steps []Step) {
	var named []string
	spares := false
	for _, s := range steps {
		spares = spares || s.Spares()
		if s.nodesHit().Named() {
			named = append(named, s.ID)
		}
	}
	if spares {
		t.linef(1, "spared: the node that carries the control arm")
	}
	if len(named) > 0 {
		t.linef(1, "the control arm is kept off the nodes that these name: %s", strings.Join(named, ", "))
	}
}
