// Package tctl works on a Teleport cluster with its own administration tool, where that tool is: in an auth pod.
// Nothing but the program is needed there: no shell, no tar.
package tctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// Runner runs tctl with the arguments and gives its standard output. If it fails the error is an *Error.
type Runner func(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error)

// Error is a tctl that failed.
type Error struct {
	Args    []string
	Message string // what it said, without its colours
	Hint    string // what to do about it, if we know
	Err     error
}

func (e *Error) Error() string {
	s := "tctl " + strings.Join(e.Args, " ") + ": " + e.Message
	if e.Message == "" {
		s += e.Err.Error()
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Local runs a tctl of this machine; before are arguments that always stand first, like -c FILE.
func Local(program string, before ...string) Runner {
	return func(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, program, append(append([]string(nil), before...), args...)...)
		var out, errs bytes.Buffer
		// A pipe, not a file: tctl writes credentials to /dev/stdout.
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
		if err := cmd.Run(); err != nil {
			return nil, failed(args, errs.String()+out.String(), err)
		}
		return out.Bytes(), nil
	}
}

// Pods says where an auth pod is to be found.
type Pods struct {
	Config    *rest.Config
	Namespace string
	Release   string // Helm release, the pods' app.kubernetes.io/instance
	Container string // empty: teleport
}

// configInPod is where the chart puts the configuration; tctl does not look there by itself.
const configInPod = "/etc/teleport/teleport.yaml"

// Runner runs tctl in an auth pod, a ready one if there is one. Each call looks anew, so it outlives rollouts.
func (p Pods) Runner() (Runner, error) {
	if p.Container == "" {
		p.Container = "teleport"
	}
	client, err := kubernetes.NewForConfig(p.Config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
		pod, err := p.find(ctx, client)
		if err != nil {
			return nil, &Error{Args: args, Err: err}
		}
		return p.exec(ctx, client, pod, stdin, args)
	}, nil
}

func (p Pods) find(ctx context.Context, client kubernetes.Interface) (string, error) {
	selector := "app.kubernetes.io/component=auth,app.kubernetes.io/instance=" + p.Release
	list, err := client.CoreV1().Pods(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return "", fmt.Errorf("list auth pods: %w", err)
	}
	running := ""
	for _, pod := range list.Items {
		switch {
		case pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning:
		case ready(&pod):
			return pod.Name, nil
		default:
			running = pod.Name
		}
	}
	if running == "" {
		return "", fmt.Errorf("no auth pod runs in namespace %s (of %d with %s)", p.Namespace, len(list.Items), selector)
	}
	return running, nil
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (p Pods) exec(ctx context.Context, client kubernetes.Interface, pod string, stdin io.Reader, args []string) ([]byte, error) {
	req := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.Namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: p.Container, Command: append([]string{"tctl", "-c", configInPod}, args...),
			Stdin: stdin != nil, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	executor, err := Executor(p.Config, req)
	if err != nil {
		return nil, &Error{Args: args, Err: err}
	}
	var out, errs bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: &out, Stderr: &errs}); err != nil {
		return nil, failed(args, errs.String()+out.String(), fmt.Errorf("in pod %s: %w", pod, err))
	}
	return out.Bytes(), nil
}

// Executor streams over WebSocket, or over SPDY where the server knows no better.
func Executor(config *rest.Config, req *rest.Request) (remotecommand.Executor, error) {
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, req.URL())
	if err != nil {
		return nil, err
	}
	// A WebSocket upgrade is a GET.
	ws, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, req.URL().String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(ws, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// secret is anything that must not get into an error: keys of credentials that tctl printed before it failed.
var secret = regexp.MustCompile(`(?s)-----BEGIN.*-----END[^\n]*`)

func failed(args []string, said string, err error) error {
	said = secret.ReplaceAllString(colours.ReplaceAllString(said, ""), "…")
	said = strings.Join(strings.Fields(said), " ")
	said = strings.TrimPrefix(said, "ERROR: ")
	e := &Error{Args: args, Message: said, Err: err}
	switch {
	case strings.Contains(said, "exceeded the maximum allowed value"):
		e.Hint = "ask for less, or raise max_session_ttl of the user's role"
	case strings.Contains(said, "access denied") && len(args) > 1 && args[1] == "sign":
		e.Hint = "is there such a user?"
	case strings.Contains(said, "not found") && errors.Is(err, exec.ErrNotFound):
		e.Hint = "the image has no tctl"
	}
	return e
}
