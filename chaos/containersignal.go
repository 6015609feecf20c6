package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilexec "k8s.io/client-go/util/exec"

	"shakedown.dev/shakedown/undo"
)

var containerSignal = Kind{
	Name: "containerSignal",
	Proof: "the kubelet reports that the container ended, with its exit status; if it lives through the signal, that it has processes " +
		"which it did not have before, as Teleport has after HUP",
	Healed:  "the container runs, and the workload has all replicas ready",
	Where:   "clusters that run programs on their nodes (embedded, kind), because a PID namespace protects its first process from SIGKILL sent inside; all signals but KILL also where commands can be run in the container and it has a kill program",
	Example: "containerSignal: {select: {component: etcd, by: leader, count: 1}, signal: KILL}",
	Slow:    slowPods,
	available: func(ctx context.Context, s *Site) error {
		_, err := s.spawner()
		switch {
		case err == nil:
			return nil
		case s.Do.Args.String("signal") == "KILL":
			return fmt.Errorf("SIGKILL from inside does not reach a container's main process, and from outside: %w", err)
		case s.REST == nil:
			return fmt.Errorf("commands cannot be run in containers, and from outside: %w", err)
		}
		return nil
	},
	inject: injectSignal,
}

// signalled are containers that were sent a signal.
type signalled struct {
	site       *Site
	containers []target
	owners     []owner
	before     []string // the processes of each, from outside; empty if they cannot be seen
}

func injectSignal(ctx context.Context, s *Site) (Injection, error) {
	pods, err := s.HitPods(ctx)
	if err != nil {
		return nil, err
	}
	g := &signalled{site: s}
	if g.containers, err = s.containers(pods); err != nil {
		return nil, err
	}
	for i := range pods {
		o, err := s.ownerOf(ctx, &pods[i])
		if err != nil {
			return nil, err
		}
		g.owners = append(g.owners, o)
		g.before = append(g.before, g.processes(ctx, g.containers[i]))
	}
	signal := s.Do.Args.String("signal")
	for i, c := range g.containers {
		change := undo.Change{Kind: undo.PodsRemoved, What: "send SIG" + signal + " to " + c.String(), Object: g.owners[i].object()}
		if err := s.Change(ctx, change, func(ctx context.Context) error { return s.signal(ctx, c, signal) }); err != nil {
			return effect{site: s, settle: g.settle, healed: g.healed}, err
		}
	}
	return effect{site: s, settle: g.settle, healed: g.healed}, nil
}

// signal sends it from outside the container if that is possible, else by a command in it.
func (s *Site) signal(ctx context.Context, c target, signal string) error {
	if _, err := s.spawner(); err == nil {
		_, err := s.sh(ctx, findContainer+`p=$(main $1) || { echo it has no process >&2; exit 1; }; kill -$2 $p`, c.id, signal)
		return err
	}
	_, err := s.exec(ctx, c.pod.Name, c.name, "kill", "-"+signal, "1")
	return sent(err)
}

// sent is how the command that sends a signal ended. The end of a container's first process takes all others in it
// along, the command as well: that it was killed says that the signal did its work, which the proof will see or not.
func sent(err error) error {
	if ended, ok := errors.AsType[utilexec.ExitError](err); ok && ended.ExitStatus() == 137 { // 128 and SIGKILL
		return nil
	}
	return err
}

// processes are the PIDs of a container, seen from outside, or by a shell in it; empty if neither can be.
func (g *signalled) processes(ctx context.Context, c target) string {
	said, err := g.site.sh(ctx, findContainer+`pids $1`, c.id)
	if err != nil && g.site.REST != nil {
		said, err = g.site.exec(ctx, c.pod.Name, c.name, "sh", "-c", `for p in /proc/[0-9]*; do [ ${p#/proc/} = $$ ] || echo ${p#/proc/}; done`)
	}
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(said), " ")
}

// fresh are processes that the container has now and did not have before, and still has a moment later: not
// a probe's.
func (g *signalled) fresh(ctx context.Context, c target, before string) string {
	now := added(before, g.processes(ctx, c))
	if now == "" || pause(ctx, lookEvery) != nil {
		return ""
	}
	gone := added(g.processes(ctx, c), now)
	return added(gone, now)
}

func (g *signalled) settle(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		var said []string
		for i, c := range g.containers {
			saw, err := g.effect(ctx, c, g.before[i])
			if err != nil {
				return "", err
			}
			said = append(said, saw)
		}
		return strings.Join(said, "; "), nil
	})
}

// effect is what became of one container.
func (g *signalled) effect(ctx context.Context, c target, before string) (string, error) {
	p, err := g.site.Client.CoreV1().Pods(c.pod.Namespace).Get(ctx, c.pod.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("look at pod %s: %w", c.pod.Name, err)
	}
	status, _ := containerStatus(p, c.name)
	for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
		if end := state.Terminated; end != nil && strings.HasSuffix(end.ContainerID, c.id) {
			return fmt.Sprintf("%s ended with exit status %d (%s)", c, end.ExitCode, end.Reason), nil
		}
	}
	if before != "" {
		if fresh := g.fresh(ctx, c, before); fresh != "" {
			return fmt.Sprintf("%s lives and has new processes: %s", c, fresh), nil
		}
	}
	return "", fmt.Errorf("%s shows no effect", c)
}

// added are the words of after that before has not.
func added(before, after string) string {
	var out []string
	for _, word := range strings.Fields(after) {
		if !strings.Contains(" "+before+" ", " "+word+" ") {
			out = append(out, word)
		}
	}
	return strings.Join(out, " ")
}

func (g *signalled) healed(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		return g.site.allReady(ctx, g.owners)
	})
}

var containerPause = Kind{
	Name:    "containerPause",
	Proof:   "the kernel has every process of the container as stopped (state T)",
	Healed:  "no process of the container is stopped, and the workload has all replicas ready",
	Where:   "clusters that run programs on their nodes (embedded, kind)",
	Example: "containerPause: {select: {component: proxy, by: mostSessions, count: 1}, for: 20s}",
	available: func(ctx context.Context, s *Site) error {
		_, err := s.spawner()
		return err
	},
	inject: injectPause,
}

// stopAll stops until a look finds nothing that runs: a process may fork while it is looked for.
const stopAll = findContainer + `for try in 1 2 3 4 5 6 7 8 9 10; do
for p in $(pids $1); do kill -STOP $p; done; running=$(for p in $(pids $1); do grep -s '^State:' /proc/$p/status; done | grep -cv 'T (stopped)')
[ "$running" = 0 ] && exit 0; sleep 0.1; done; echo "$running processes keep running" >&2; exit 1`

const (
	continueAll = findContainer + `for p in $(pids $1); do kill -CONT $p; done`
	noneStopped = findContainer + `for p in $(pids $1); do grep -qs '^State:.*T (stopped)' /proc/$p/status && exit 1; done; exit 0`
	countStates = findContainer + `for p in $(pids $1); do grep -s '^State:' /proc/$p/status; done | sort | uniq -c`
)

func injectPause(ctx context.Context, s *Site) (Injection, error) {
	pods, err := s.HitPods(ctx)
	if err != nil {
		return nil, err
	}
	g := &signalled{site: s}
	if g.containers, err = s.containers(pods); err != nil {
		return nil, err
	}
	e := effect{site: s, settle: g.stopped, healed: g.continued}
	for i, c := range g.containers {
		if o, err := s.ownerOf(ctx, &pods[i]); err == nil {
			g.owners = append(g.owners, o)
		}
		err := s.command(ctx, "pause "+c.String(), shell(stopAll, c.id), shell(continueAll, c.id), shell(noneStopped, c.id))
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

func (g *signalled) stopped(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		var said []string
		for _, c := range g.containers {
			states, err := g.site.sh(ctx, countStates, c.id)
			if err != nil {
				return "", err
			}
			lines := strings.Split(strings.TrimSpace(states), "\n")
			if len(lines) != 1 || !strings.Contains(lines[0], "T (stopped)") {
				return "", fmt.Errorf("%s: states of its processes: %s", c, strings.Join(lines, ", "))
			}
			said = append(said, fmt.Sprintf("%s: all of its processes are stopped (%s)", c, strings.Fields(lines[0])[0]))
		}
		return strings.Join(said, "; "), nil
	})
}

func (g *signalled) continued(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		for _, c := range g.containers {
			if _, err := g.site.sh(ctx, noneStopped, c.id); err != nil {
				return "", errors.Join(fmt.Errorf("%s has stopped processes", c), err)
			}
		}
		ready, err := g.site.allReady(ctx, g.owners)
		return "no process is stopped; " + ready, err
	})
}
