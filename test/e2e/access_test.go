package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
)

const plainPod = `
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec: {containers: [{name: x, image: APP, readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}}]}
`

func TestE2EExec(t *testing.T) {
	t.Parallel()
	inSpace(t, "output, input, exit status and terminal", func(s *space) {
		s.apply(plainPod)
		s.ready("p", 1)
		out, err := s.stream("p", "", strings.NewReader("to stdin"), false, "sh", "-c", "cat; echo; echo to stderr >&2; exit 9")
		var status exec.CodeExitError
		if !errors.As(err, &status) || status.Code != 9 || !strings.Contains(out, "to stdin") || !strings.Contains(out, "to stderr") {
			t.Errorf("exec says %q, %v; want both streams and status 9", out, err)
		}
		out, err = s.stream("p", "", strings.NewReader("tty; exit\n"), true, "sh")
		if err != nil || !strings.Contains(out, "/dev/pts/") {
			t.Errorf("a terminal was asked for: %q (%v)", out, err)
		}
		if _, err = s.exec("p", "no-such-program"); err == nil {
			t.Error("a program that is not there ran")
		}
		req := s.cs.CoreV1().RESTClient().Post().Resource("pods").Namespace(s.name).Name("p").SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Command: []string{"hostname"}, Stdout: true}, scheme.ParameterCodec)
		ex, err := remotecommand.NewSPDYExecutor(s.rc, "POST", req.URL())
		s.must(err)
		var spdyOut bytes.Buffer
		if err := ex.StreamWithContext(s.ctx, remotecommand.StreamOptions{Stdout: &spdyOut}); err != nil || spdyOut.String() != "p\n" {
			t.Errorf("over SPDY: %q (%v)", spdyOut.String(), err)
		}
	})
}

func TestE2EAttach(t *testing.T) {
	t.Parallel()
	inSpace(t, "attach joins the first process of the container", func(s *space) {
		s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec: {containers: [{name: x, image: HOST, stdin: true, command: [sh, -c, "while read l; do echo got $l; [ $l = end ] && exit 0; done"]}], restartPolicy: Never}
`)
		s.ready("p", 1)
		req := s.cs.CoreV1().RESTClient().Post().Resource("pods").Namespace(s.name).Name("p").SubResource("attach").
			VersionedParams(&corev1.PodAttachOptions{Stdin: true, Stdout: true}, scheme.ParameterCodec)
		ex, err := remotecommand.NewWebSocketExecutor(s.rc, "GET", req.URL().String())
		s.must(err)
		var out bytes.Buffer
		err = ex.StreamWithContext(s.ctx, remotecommand.StreamOptions{Stdin: strings.NewReader("a\nend\n"), Stdout: &out})
		if err != nil || !strings.Contains(out.String(), "got a\n") {
			t.Errorf("attach says %q (%v)", out.String(), err)
		}
	})
}

func TestE2EPortForward(t *testing.T) {
	t.Parallel()
	inSpace(t, "a port of the pod on loopback of this machine", func(s *space) {
		s.apply(plainPod)
		s.ready("p", 1)
		rt, upgrader, err := spdy.RoundTripperFor(s.rc)
		s.must(err)
		url := s.cs.CoreV1().RESTClient().Post().Resource("pods").Namespace(s.name).Name("p").SubResource("portforward").URL()
		stop, ready := make(chan struct{}), make(chan struct{})
		defer close(stop)
		fw, err := portforward.NewOnAddresses(spdy.NewDialer(upgrader, &http.Client{Transport: rt}, "POST", url), []string{"127.0.0.1"}, []string{"0:8080"}, stop, ready, io.Discard, io.Discard)
		s.must(err)
		failed := make(chan error, 1)
		go func() { failed <- fw.ForwardPorts() }()
		select {
		case err := <-failed:
			t.Fatal(err)
		case <-ready:
		}
		ports, err := fw.GetPorts()
		s.must(err)
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", ports[0].Local))
		s.must(err)
		defer resp.Body.Close()
		if body, _ := io.ReadAll(resp.Body); string(body) != "p" {
			t.Errorf("through the forwarded port: %q", body)
		}
	})
}

func TestE2ELogs(t *testing.T) {
	t.Parallel()
	inSpace(t, "logs of a running container, followed to its end, and of the one before", func(s *space) {
		s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec: {restartPolicy: OnFailure, containers: [{name: x, image: HOST, command: [sh, -c, "echo first; echo second >&2; sleep 1; echo last; exit 1"]}]}
`)
		s.eventually("log", func() error {
			r, err := s.cs.CoreV1().Pods(s.name).GetLogs("p", &corev1.PodLogOptions{Follow: true}).Stream(s.ctx)
			if err != nil {
				return err
			}
			defer r.Close()
			out, err := io.ReadAll(r)
			if err == nil && string(out) != "first\nsecond\nlast\n" {
				err = fmt.Errorf("followed log is %q", out)
			}
			return err
		})
		s.eventually("log of the container before", func() error {
			out, err := s.cs.CoreV1().Pods(s.name).GetLogs("p", &corev1.PodLogOptions{Previous: true}).DoRaw(s.ctx)
			if err == nil && !strings.Contains(string(out), "last\n") {
				err = fmt.Errorf("it is %q", out)
			}
			return err
		})
	})
}

func TestE2EProjectedTokenIsReviewed(t *testing.T) {
	t.Parallel()
	inSpace(t, "TokenReview knows the pod by its token, and an audience holds", func(s *space) {
		s.apply(`
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec:
  volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: token, audience: vault}}]}}]
  containers: [{name: x, image: APP, volumeMounts: [{name: t, mountPath: /t}]}]
`)
		s.ready("p", 1)
		token, err := s.exec("p", "cat", "/t/token")
		s.must(err)
		review := func(audience string) authnv1.TokenReviewStatus {
			r, err := s.cs.AuthenticationV1().TokenReviews().Create(s.ctx, &authnv1.TokenReview{
				Spec: authnv1.TokenReviewSpec{Token: token, Audiences: []string{audience}}}, metav1.CreateOptions{})
			s.must(err)
			return r.Status
		}
		got := review("vault")
		if !got.Authenticated || got.User.Username != "system:serviceaccount:"+s.name+":default" {
			t.Errorf("review says %+v", got)
		}
		if review("bank").Authenticated {
			t.Error("a token for one audience is accepted for another")
		}
	})
}

func TestE2EAccessIsDeniedAsItShouldBe(t *testing.T) {
	t.Parallel()
	inSpace(t, "a service account without a role sees nothing; nobody is nobody; kubelets ask", func(s *space) {
		s.apply(plainPod)
		pod := s.ready("p", 1)[0]
		token, err := s.exec("p", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
		s.must(err)
		account := rest.AnonymousClientConfig(s.rc)
		account.BearerToken = token
		as, err := kubernetes.NewForConfig(account)
		s.must(err)
		if _, err := as.CoreV1().Secrets(s.name).List(s.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("listing secrets without a role: %v, want forbidden", err)
		}
		review, err := as.AuthorizationV1().SelfSubjectAccessReviews().Create(s.ctx, &authzv1.SelfSubjectAccessReview{
			Spec: authzv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authzv1.ResourceAttributes{Verb: "get", Resource: "pods", Namespace: s.name}}}, metav1.CreateOptions{})
		s.must(err)
		if review.Status.Allowed {
			t.Error("a bare service account may read pods")
		}
		nobody, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(s.rc))
		s.must(err)
		if _, err := nobody.CoreV1().Pods(s.name).List(s.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			t.Errorf("listing pods as nobody: %v", err)
		}
		s.kubeletRefuses(pod.Status.HostIP)
	})
}

// kubeletRefuses asks a kubelet directly, without a certificate.
func (s *space) kubeletRefuses(host string) {
	s.t.Helper()
	tr := &http.Transport{TLSClientConfig: insecure(), DialContext: s.c.DialContext}
	resp, err := (&http.Client{Transport: tr}).Get("https://" + host + ":10250/pods")
	s.must(err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		s.t.Errorf("the kubelet answers an anonymous caller with %s", resp.Status)
	}
}
