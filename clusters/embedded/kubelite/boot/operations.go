package boot

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// actions are what can be done to a node, by the word that asks for it.
func (c *cluster) actions() map[string]func(*machine, []string) error {
	return map[string]func(*machine, []string) error{
		"kill":      func(n *machine, _ []string) error { return c.powerOff(n) },
		"restart":   func(n *machine, _ []string) error { return c.reboot(n) },
		"pause":     func(n *machine, _ []string) error { return c.pause(n) },
		"resume":    func(n *machine, _ []string) error { return c.resume(n) },
		"partition": c.partition,
		"heal":      func(n *machine, _ []string) error { return c.healPartition(n) },
	}
}

// operate does action to the node called name.
func (c *cluster) operate(name, action string, from []string) error {
	act := c.actions()[action]
	if act == nil {
		return fmt.Errorf("node action %q: kill, pause, resume, partition, heal or restart", action)
	}
	n := c.nodeByName(name)
	if n == nil {
		return fmt.Errorf("node %q: there is %s", name, strings.Join(c.nodeNames(), ", "))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return act(n, from)
}

func (c *cluster) nodeByName(name string) *machine {
	c.nodesMu.Lock()
	defer c.nodesMu.Unlock()
	for _, n := range c.nodes {
		if n.plan.name == name {
			return n
		}
	}
	return nil
}

func (c *cluster) nodeNames() []string {
	c.nodesMu.Lock()
	defer c.nodesMu.Unlock()
	var out []string
	for _, n := range c.nodes {
		out = append(out, n.plan.name)
	}
	return out
}

// powerOff is a power cut: the head of the node's PID namespace is killed and
// the kernel ends every process in it at the same moment.
func (c *cluster) powerOff(n *machine) error {
	if n.state == nodeKilled {
		return nil
	}
	if err := c.kill(n.plan.name); err != nil {
		return err
	}
	n.state = nodeKilled
	if err := unplug(n.plan); err != nil {
		return fmt.Errorf("unplug %s: %w", n.plan.name, err)
	}
	return nil
}

// reboot is a power cut followed by a start. The node's disk survives, its
// running containers and its memory do not.
func (c *cluster) reboot(n *machine) error {
	if err := c.powerOff(n); err != nil {
		return err
	}
	return c.powerOn(n)
}

// pause stops every process of the node where it stands. Connections stay
// open, nothing answers.
func (c *cluster) pause(n *machine) error {
	if n.state == nodeKilled {
		return fmt.Errorf("%s is killed: restart it first", n.plan.name)
	}
	// A process that is just being forked is seen in the next round; the head
	// of the namespace is stopped first, so that rounds end.
	for range 50 {
		stopped, err := c.signalNode(n, syscall.SIGSTOP, func(s byte) bool { return s != 'T' && s != 't' })
		if err != nil {
			return err
		}
		if stopped == 0 {
			n.state = nodePaused
			return nil
		}
	}
	return fmt.Errorf("pause %s: processes keep appearing", n.plan.name)
}

func (c *cluster) resume(n *machine) error {
	if n.state != nodePaused {
		return nil
	}
	if _, err := c.signalNode(n, syscall.SIGCONT, func(byte) bool { return true }); err != nil {
		return err
	}
	n.state = nodeRunning
	return nil
}

// signalNode signals the node's processes whose state wanted asks for, parents
// first, and counts them.
func (c *cluster) signalNode(n *machine, sig syscall.Signal, wanted func(state byte) bool) (int, error) {
	head := c.pid(n.plan.name)
	if head == 0 {
		return 0, fmt.Errorf("%s does not run", n.plan.name)
	}
	count := 0
	for _, pid := range family(head) {
		st, ok := readStat(pid)
		if !ok || st.state == 'Z' || !wanted(st.state) {
			continue
		}
		if err := syscall.Kill(pid, sig); err != nil && !os.IsNotExist(err) && err != syscall.ESRCH {
			return count, fmt.Errorf("signal %d of %s: %w", pid, n.plan.name, err)
		}
		count++
	}
	return count, nil
}

// family lists head and its descendants, parents first. Nobody can leave it:
// orphans are adopted by the head of their own PID namespace.
func family(head int) []int {
	children := map[int][]int{}
	for _, pid := range allPIDs() {
		if st, ok := readStat(pid); ok {
			children[st.parent] = append(children[st.parent], pid)
		}
	}
	out := []int{head}
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out
}

// partition cuts the node and its pods from the named others, or from
// everything when none is named.
func (c *cluster) partition(n *machine, from []string) error {
	for _, name := range from {
		if name != "api" && c.nodeByName(name) == nil {
			return fmt.Errorf("partition from %q: api or one of %s", name, strings.Join(c.nodeNames(), ", "))
		}
		if name == n.plan.name {
			return fmt.Errorf("partition of %s from itself", name)
		}
	}
	from = slices.Compact(slices.Sorted(slices.Values(from)))
	var peers []nodePlan
	for _, name := range from {
		if p := c.nodeByName(name); p != nil {
			peers = append(peers, p.plan)
		}
	}
	if err := cutOff(n.plan, peers, slices.Contains(from, "api"), len(from) == 0); err != nil {
		return fmt.Errorf("partition %s: %w", n.plan.name, err)
	}
	n.cut = true
	return nil
}

func (c *cluster) healPartition(n *machine) error {
	if err := joinAgain(n.plan); err != nil {
		return fmt.Errorf("heal %s: %w", n.plan.name, err)
	}
	n.cut = false
	return nil
}
