package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// script is a fault that programs beside the containers make, one container at a time. Each part runs by
// sh in the cluster's namespaces, after findContainer, with the container's ID as $1 and the words of args
// after it.
type script struct {
	verb string // "fill /var/lib/teleport of", for people
	do   string
	back string // takes it back; safe to run again, and where nothing was done
	gone string // exits with 0 if and only if nothing of it is left
	args []string
	// bites and quiet say what is seen while it is in force, and after it.
	bites, quiet func(ctx context.Context, t target) (string, error)
}

// scripting injects what of gives for the selected containers: a script of its own for each of them.
func scripting(of func(ctx context.Context, s *Site, t target) (script, error)) func(context.Context, *Site) (Injection, error) {
	return func(ctx context.Context, s *Site) (Injection, error) {
		pods, err := s.HitPods(ctx)
		if err != nil {
			return nil, err
		}
		f := &scripts{site: s, began: time.Now()}
		if f.containers, err = s.containers(pods); err != nil {
			return nil, err
		}
		for i, t := range f.containers {
			if o, err := s.ownerOf(ctx, &pods[i]); err == nil {
				f.owners = append(f.owners, o)
			}
			one, err := of(ctx, s, t)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t, err)
			}
			f.each = append(f.each, one)
		}
		return f.begin(ctx)
	}
}

// scripts are the script of each container, in force or about to be.
type scripts struct {
	site       *Site
	containers []target
	owners     []owner
	each       []script
	began      time.Time
}

func (f *scripts) begin(ctx context.Context) (Injection, error) {
	e := effect{site: f.site, settle: f.settle, healed: f.healed}
	for i, x := range f.each {
		t := f.containers[i]
		part := func(text string) []string {
			return shell("LC_ALL=C; export LC_ALL\n"+findContainer+text, append([]string{t.id}, x.args...)...)
		}
		if err := f.site.command(ctx, x.verb+" "+t.String(), part(x.do), part(x.back), part(x.gone)); err != nil {
			return e, err
		}
	}
	return e, nil
}

func (f *scripts) settle(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		var said []string
		for i, x := range f.each {
			saw, err := x.bites(ctx, f.containers[i])
			if err != nil {
				return "", fmt.Errorf("%s: %w", f.containers[i], errors.Join(err, f.ended(ctx, f.containers[i])))
			}
			said = append(said, fmt.Sprintf("%s: %s", f.containers[i], saw))
		}
		return fmt.Sprintf("%s, %s after the start", strings.Join(said, "; "), seconds(time.Since(f.began))), nil
	})
}

// ended is errOver if the container has: a kubelet that takes it for dead, perhaps because of this very fault,
// starts another, in which nothing of the fault is in force.
func (f *scripts) ended(ctx context.Context, t target) error {
	p, err := f.site.Client.CoreV1().Pods(t.pod.Namespace).Get(ctx, t.pod.Name, metav1.GetOptions{})
	if err != nil {
		return nil //nolint:nilerr // not to know is no end
	}
	status, _ := containerStatus(p, t.name)
	for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
		if end := state.Terminated; end != nil && strings.HasSuffix(end.ContainerID, t.id) {
			return fmt.Errorf("it ended with exit status %d (%s) before the fault was seen: %w", end.ExitCode, end.Reason, errOver)
		}
	}
	return nil
}

// healed sees each container well again. One that ended meanwhile took everything with it, and what came
// in its place is seen by its workload.
func (f *scripts) healed(ctx context.Context) (string, error) {
	return await(ctx, func(ctx context.Context) (string, error) {
		var said []string
		for i, x := range f.each {
			t := f.containers[i]
			if _, err := f.site.sh(ctx, findContainer+`main $1 >/dev/null`, t.id); err != nil {
				said = append(said, fmt.Sprintf("%s has ended since", t))
				continue
			}
			saw, err := x.quiet(ctx, t)
			if err != nil {
				return "", fmt.Errorf("%s: %w", t, err)
			}
			said = append(said, fmt.Sprintf("%s: %s", t, saw))
		}
		ready, err := f.site.allReady(ctx, f.owners)
		return strings.TrimSuffix(strings.Join(append(said, ready), "; "), "; "), err
	})
}

// in runs a script about a container, which is found as $p.
func (s *Site) in(ctx context.Context, t target, text string, args ...string) (string, error) {
	const enter = "LC_ALL=C; export LC_ALL\n" + findContainer + `p=$(main $1) || { echo it has no process >&2; exit 1; }
`
	said, err := s.sh(ctx, enter+text, append([]string{t.id}, args...)...)
	return strings.TrimSpace(said), err
}

// mark is a name for what this fault makes, by which it is found again.
func (s *Site) mark() string { return "shakedown_" + hash(s.Run+"/"+s.ID) }

var errStillThere = errors.New("still in force")
