package scenarios

import (
	"fmt"
	"slices"
	"strings"
)

// The control arm stands on a node, beside Teleport. Were a fault to take that node away, what fails there would say
// nothing about the machine and the network any more, and the run could not be judged. So faults that choose their
// nodes spare it, and it is kept off the nodes that faults name.

// Named says whether the selection is about one certain node, so that none is spared.
func (n *NodeSelection) Named() bool { return n != nil && (n.Name != "" || n.Ordinal != nil) }

// Spares says whether an action with such hits leaves the control arm's node alone.
func (d *Do) Spares(hits Hits) bool {
	sel := d.takesAway(hits)
	return sel != nil && !sel.Named()
}

// takesAway is the nodes whose pods the action ends or cuts off, nil if it is none.
func (d *Do) takesAway(hits Hits) *NodeSelection {
	if d == nil || hits != HitsNodes || d.Selects["select"] == nil {
		return nil
	}
	if d.Action == "nodeTaint" && d.Args.String("effect") != "NoExecute" {
		return nil // what runs there stays
	}
	return d.Selects["select"].Node
}

// NamedNodes are the selections of faults that name the node that they take away.
func NamedNodes(steps []Step) []NodeSelection {
	var out []NodeSelection
	for _, s := range steps {
		if sel := s.Do.takesAway(s.Hits); sel.Named() {
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
	if !s.Do.Spares(s.Hits) || f.Nodes == 0 || sel.Count < f.Nodes && f.Nodes > 1 {
		return nil
	}
	return []string{fmt.Sprintf("selects %s of %d, one of which carries the control arm and is spared: add a node to cluster.nodes", sel.amount(), f.Nodes)}
}

// control says what becomes of the control arm's node.
func (t *printer) control(steps []Step) {
	var named []string
	spares := false
	for _, s := range steps {
		spares = spares || s.Do.Spares(s.Hits)
		if s.Do.takesAway(s.Hits).Named() {
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

// AvoidedWith are the components whose nodes faults that take nodes away leave out, each once: the control arm is best
// where such nodes are.
func AvoidedWith(steps []Step) []string {
	var out []string
	for _, s := range steps {
		if sel := s.Do.takesAway(s.Hits); sel != nil && sel.Without != "" && !slices.Contains(out, sel.Without) {
			out = append(out, sel.Without)
		}
	}
	return out
}
