// Package probe measures, before a run, what a version does where versions differ, so that nothing has to be
// assumed of it: what stopping a proxy pod does to the sessions that go through it.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/pods"
	"shakedown.dev/shakedown/teleport/ssh"
)

// Stop is what stopping a proxy pod did. Times count from the deletion; zero means that it was not seen.
type Stop struct {
	Grace    time.Duration `json:"graceNs"`   // the pod's termination grace period
	Unready  time.Duration `json:"unreadyNs"` // until the pod was not ready any more
	Dropped  time.Duration `json:"droppedNs"` // until the session was cut
	Ended    time.Duration `json:"endedNs"`   // until the container had ended
	Gone     time.Duration `json:"goneNs"`    // until the pod object was gone
	Cut      history.Cut   `json:"cut"`       // how the cut looked to the client
	ExitCode int           `json:"exitCode"`  // of the container; 137 is a kill after the grace period
	Signal   int           `json:"signal"`    // that ended it, if one did
	Survived bool          `json:"survived"`  // the session outlived the pod
	Message  string        `json:"message"`   // words of the server to the client
	Pod      string        `json:"pod"`       // its name
}

// Options say what to stop and how to look.
type Options struct {
	Kube      kubernetes.Interface
	SSH       *ssh.Client
	Proxy     pods.Pod // is deleted, gracefully; its controller makes another
	Separate  bool
	Node      string        // UUID of a node to hold a session on
	Container string        // empty: teleport
	Patience  time.Duration // beyond the grace period; zero: 30 s
}

// StopProxy holds a terminal session through the proxy pod, deletes the pod and looks until pod and session are
// gone. It changes the cluster: one pod is replaced.
func StopProxy(ctx context.Context, o Options) (Stop, error) {
	if o.Container == "" {
		o.Container = "teleport"
	}
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	session, err := o.SSH.Open(ctx, o.Proxy.Through(o.Separate), ssh.Target{Node: o.Node}, ssh.Start{PTY: true})
	if err != nil {
		return Stop{}, fmt.Errorf("a session through %s: %w", o.Proxy.Name, err)
	}
	defer session.Close()
	client := o.Kube.CoreV1().Pods(o.Proxy.Namespace)
	pod, err := client.Get(ctx, o.Proxy.Name, metav1.GetOptions{})
	if err != nil {
		return Stop{}, err
	}
	s := Stop{Pod: pod.Name, Grace: time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second}
	ctx, cancel := context.WithTimeout(ctx, s.Grace+o.Patience)
	defer cancel()
	events, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Name).String(), ResourceVersion: pod.ResourceVersion})
	if err != nil {
		return Stop{}, err
	}
	defer events.Stop()
	began := time.Now()
	uid := types.UID(o.Proxy.UID)
	if err := client.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		return Stop{}, fmt.Errorf("delete %s: %w", pod.Name, err)
	}
	err = o.look(ctx, &s, session, events, began)
	return s, err
}

// look follows pod and session to their ends.
func (o Options) look(ctx context.Context, s *Stop, session *ssh.Session, events watch.Interface, began time.Time) error {
	cut := make(chan ssh.End, 1)
	go func() {
		_, _ = io.Copy(io.Discard, session)
		cut <- session.End(ctx)
	}()
	changes, ends := events.ResultChan(), (<-chan ssh.End)(cut)
	for changes != nil || ends != nil {
		select {
		case end := <-ends:
			s.Dropped, s.Cut, s.Message, ends = time.Since(began), end.Cut, end.Message, nil
		case e, ok := <-changes:
			if !ok || o.take(s, e, time.Since(began)) {
				changes = nil
			}
		case <-ctx.Done():
			s.Survived = ends != nil
			if s.Survived && changes == nil {
				return nil
			}
			return errors.Join(fmt.Errorf("pod %s is not gone", s.Pod), ctx.Err())
		}
	}
	return nil
}

// take notes a change of the pod, and tells whether it was the last.
func (o Options) take(s *Stop, e watch.Event, at time.Duration) bool {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return apierrors.FromObject(e.Object) != nil
	}
	if !pods.From(pod).Ready && s.Unready == 0 {
		s.Unready = at
	}
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; c.Name == o.Container && t != nil && s.Ended == 0 {
			s.Ended, s.ExitCode, s.Signal = at, int(t.ExitCode), int(t.Signal)
		}
	}
	if e.Type == watch.Deleted {
		s.Gone = at
		return true
	}
	return false
}
