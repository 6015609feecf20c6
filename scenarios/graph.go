package scenarios

import "fmt"

// node is a point in the life of a step, in the graph of what waits for what.
type node struct {
	step  string
	point Point
}

// waitsFor is the graph: for each point those that come before it.
func waitsFor(steps []Step) map[node][]node {
	before := map[node][]node{}
	for _, s := range steps {
		begin, end := node{s.ID, Started}, node{s.ID, Ended}
		for _, n := range s.Needs {
			if n.Step != "" {
				before[begin] = append(before[begin], node{n.Step, n.Point})
			}
		}
		before[end] = append(before[end], begin)
		if s.Parent != "" {
			group := node{s.Parent, Ended}
			before[group] = append(before[group], end)
		}
	}
	return before
}

// cycles reports entries that wait for themselves.
func (f *flattener) cycles() {
	before := waitsFor(f.steps)
	const visiting, visited = 1, 2
	state := map[node]int{}
	var visit func(n node) bool
	visit = func(n node) bool {
		switch state[n] {
		case visiting:
			return true
		case visited:
			return false
		}
		state[n] = visiting
		for _, b := range before[n] {
			if visit(b) {
				return true
			}
		}
		state[n] = visited
		return false
	}
	for _, s := range f.steps {
		if visit(node{s.ID, Started}) {
			f.report(s.pos, Problem{Message: fmt.Sprintf("entry %q waits, by way of others, for its own end", s.Name)})
			return
		}
	}
}

// earlier gives for a point all points that certainly come before it.
func earlier(before map[node][]node, of node) map[node]bool {
	seen := map[node]bool{}
	queue := []node{of}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, b := range before[n] {
			if !seen[b] {
				seen[b] = true
				queue = append(queue, b)
			}
		}
	}
	return seen
}
