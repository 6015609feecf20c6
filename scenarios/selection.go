package scenarios

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// Selection says what a fault acts on, by role and not by name, so that the
// same seed means the same thing in another cluster.
type Selection struct {
	Component string `json:"component,omitempty"` // auth, proxy, agent or another component's label
	Revision  string `json:"revision,omitempty"`  // old, new; empty: any
	Ordinal   *int   `json:"ordinal,omitempty"`   // of a StatefulSet
	// Node narrows pods to nodes, or is what a node fault acts on.
	Node *NodeSelection `json:"node,omitempty"`
	// By orders the candidates: random, mostSessions, fewestSessions, leader,
	// oldest, newest. The first ones are taken.
	By    string  `json:"by,omitempty"`
	Count int     `json:"count,omitempty"` // exactly one of Count, Share, All
	Share float64 `json:"share,omitempty"` // rounded up, 0..1
	All   bool    `json:"all,omitempty"`
	// Seed orders the candidates where By is random; set by the plan.
	Seed uint64 `json:"seed,omitempty"`

	pos Position
}

// NodeSelection picks nodes: by what runs there, by place, or by name.
type NodeSelection struct {
	Running string `json:"running,omitempty"` // nodes that carry a pod of this component
	Ordinal *int   `json:"ordinal,omitempty"` // in the order of their names, from 0
	Name    string `json:"name,omitempty"`    // only sensible on one's own cluster
	Any     bool   `json:"any,omitempty"`
	// Without leaves out nodes that carry a pod of this component.
	Without string `json:"without,omitempty"`
}

// Selectable orders of candidates.
var selectionOrders = []string{"random", "mostSessions", "fewestSessions", "leader", "oldest", "newest"}

// Want is how many of n candidates are to be taken; an error if there are none
// or fewer than asked for.
func (s Selection) Want(n int) (int, error) {
	want := s.Count
	switch {
	case s.All:
		want = n
	case s.Share > 0:
		want = int(math.Ceil(s.Share*float64(n) - 1e-9))
	}
	if n == 0 || want == 0 {
		return 0, fmt.Errorf("%s: nothing there to select", s)
	}
	if want > n {
		return 0, fmt.Errorf("%s: only %d there, %d wanted", s, n, want)
	}
	return want, nil
}

// Order is the order in which n candidates, sorted by a stable key, are taken
// where By is random: a permutation of 0..n-1 that depends on the seed alone.
func (s Selection) Order(n int) []int {
	return rand.New(rand.NewPCG(s.Seed, uint64(n))).Perm(n)
}

// String says the selection in words, such as "1 pod of proxy, old revision".
func (s Selection) String() string {
	if s.Component == "" {
		return s.amount() + " " + plural("node", s.Count) + " " + s.Node.String() + s.order()
	}
	words := []string{fmt.Sprintf("%s %s of %s", s.amount(), plural("pod", s.Count), s.Component)}
	if s.Revision != "" {
		words = append(words, s.Revision+" revision")
	}
	if s.Ordinal != nil {
		words = append(words, fmt.Sprintf("ordinal %d", *s.Ordinal))
	}
	if s.Node != nil {
		words = append(words, "on a node "+s.Node.String())
	}
	return strings.Join(words, ", ") + s.order()
}

func (s Selection) amount() string {
	switch {
	case s.All:
		return "all"
	case s.Share > 0:
		return FormatShare(s.Share) + " of the"
	}
	return fmt.Sprint(s.Count)
}

func (s Selection) order() string {
	switch s.By {
	case "", "random":
		return ""
	case "leader":
		return ", the leader first"
	case "oldest", "newest":
		return ", " + s.By + " first"
	case "mostSessions":
		return ", most sessions first"
	}
	return ", fewest sessions first"
}

// String says which nodes, to stand after "node".
func (n *NodeSelection) String() string {
	if n == nil {
		return "of any kind"
	}
	text := n.Name
	switch {
	case n.Any:
		text = "of any kind"
	case n.Running != "":
		text = "running " + n.Running
	case n.Ordinal != nil:
		text = fmt.Sprintf("number %d", *n.Ordinal)
	}
	if n.Without != "" {
		text += ", without " + n.Without
	}
	return text
}

func plural(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
