package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/undo"
)

// Scripts run by sh in a cluster's own namespaces, from where the processes of all its nodes are seen. They
// find a container by its ID, and a node by its kubelet, in /proc: both are in the mount table (on kind: the
// cgroup) or the command line, and no helper has to be installed.
const (
	// findContainer prints the PIDs of a container's processes; main prints the first of its PID namespace.
	// One grep looks at all processes: a fork for each takes seconds on a machine that has many.
	findContainer = `pids() { grep -ls -- "$1" /proc/[0-9]*/${` + clusters.FindContainersBy + `:-mountinfo} | sed 's,^/proc/\([0-9]*\)/.*,\1,'; }
main() { for p in $(pids $1); do grep -qs '^NSpid:.*[[:space:]]1$' /proc/$p/status && echo $p && return; done; return 1; }
`
	// onNode runs its arguments in a node's network namespace.
	onNode = `node() { n=$1; shift; for p in /proc/[0-9]*; do
case "$(tr '\0' ' ' <$p/cmdline 2>/dev/null)" in
*kubelite\ node\ */nodes/$n/node.json*|*/kubelet\ *--provider-id=kind://*/$n\ *) exec nsenter -t ${p#/proc/} -n "$@";; esac; done
echo "no node $n runs here" >&2; return 9; }
`
)

// spawner is who runs programs in the cluster's network, or why nobody does.
func (w World) spawner() (clusters.Spawner, error) {
	s, ok := w.Cluster.(clusters.Overseer)
	if !ok {
		return nil, errors.New("it takes programs that run on the nodes, and this cluster's provider runs none")
	}
	if err := s.Oversees(); err != nil {
		return nil, err
	}
	return s, nil
}

func (w World) clusterName() string {
	if w.Cluster == nil {
		return ""
	}
	return w.Cluster.Name()
}

// sh runs a script in the cluster's namespaces; an exit status other than 0 is an error with what it said.
func (w World) sh(ctx context.Context, script string, args ...string) (string, error) {
	s, err := w.spawner()
	if err != nil {
		return "", err
	}
	said, exit, err := undo.Spawn(ctx, s, shell(script, args...)...)
	if err == nil && exit != 0 {
		err = fmt.Errorf("exit status %d: %s", exit, said)
	}
	return said, err
}

func shell(script string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", script, "sh"}, args...)
}

// needs is available if the cluster runs programs on its nodes, and a script that tries a capability there
// succeeds.
func needs(what, try string) func(context.Context, *Site) error {
	return func(ctx context.Context, s *Site) error {
		if _, err := s.sh(ctx, try); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
}

// target is a container of a selected pod.
type target struct {
	pod  corev1.Pod
	name string
	id   string // without the runtime's name
}

func (t target) String() string { return "container " + t.name + " of pod " + t.pod.Name }

// containers are the containers of the pods that the parameter container names, or the pods' first ones.
func (s *Site) containers(pods []corev1.Pod) ([]target, error) {
	var out []target
	for _, p := range pods {
		t := target{pod: p, name: s.Do.Args.String("container")}
		if t.name == "" {
			t.name = p.Spec.Containers[0].Name
		}
		status, ok := containerStatus(&p, t.name)
		if !ok || status.State.Running == nil {
			return nil, fmt.Errorf("%s does not run", t)
		}
		_, t.id, _ = strings.Cut(status.ContainerID, "://")
		out = append(out, t)
	}
	return out, nil
}

func containerStatus(p *corev1.Pod, name string) (corev1.ContainerStatus, bool) {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == name {
			return c, true
		}
	}
	return corev1.ContainerStatus{}, false
}
