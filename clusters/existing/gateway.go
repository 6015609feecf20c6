package existing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"shakedown.dev/shakedown/clusters"
	"shakedown.dev/shakedown/clusters/gateway"
	"shakedown.dev/shakedown/internal/exit"
)

// GatewayPort is where the gateway listens, on its pod's loopback: only who may forward ports to the pod gets there.
const GatewayPort = 8473

const (
	gatewayName = "shakedown-gateway"
	openTime    = 2 * time.Minute // to pull an image, start, and answer
	// idleTime is for how long a gateway stays without a client: its runner is dead then.
	idleTime    = 10 * time.Minute
	keptForLogs = 60 // seconds that a Job which has ended stays
	nobody      = 65532
)

// behind is the gateway of a cluster; it is open when client is not nil.
type behind struct {
	image  string
	client *gateway.Client
}

// OpenGateway starts the gateway in a namespace, with these labels, and waits until it answers. Connections go through
// it from then on. On a cluster that was not told to have one it does nothing.
func (c *Cluster) OpenGateway(ctx context.Context, namespace string, labels map[string]string, lost func(error)) error {
	if c.way != inGateway {
		return nil
	}
	job := gatewayJob(c.gateway.image, namespace, labels)
	if _, err := c.client.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("start the gateway: %w", err)
	}
	client := &gateway.Client{Lost: lost, Connect: func(ctx context.Context) (net.Conn, error) {
		to, err := c.gatewayPod(ctx, namespace, labels)
		if err != nil {
			return nil, err
		}
		return c.forward(ctx, to)
	}}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	for {
		_, err := client.Ping(ctx)
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.gateway.client = client
			return nil
		}
		select {
		case <-ctx.Done():
			return exit.Hint(errors.Join(fmt.Errorf("the gateway does not answer: %w", err), client.Close()),
				"--load-image must name an image of this program that the cluster's nodes can pull: "+c.gateway.image)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// gatewayPod is the one that runs now: the Job brings another when it is gone.
func (c *Cluster) gatewayPod(ctx context.Context, namespace string, labels map[string]string) (endpoint, error) {
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: gatewayLabels(labels)})
	list, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return endpoint{}, err
	}
	why := "it has no pod yet"
	for _, p := range list.Items {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			return endpoint{namespace, p.Name, p.Status.PodIP, GatewayPort}, nil
		}
		why = fmt.Sprintf("pod %s is %s", p.Name, p.Status.Phase)
		for _, s := range p.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil {
				why += fmt.Sprintf(", %s: %s", w.Reason, w.Message)
			}
		}
	}
	return endpoint{}, errors.New(why)
}

func gatewayLabels(more map[string]string) map[string]string {
	labels := map[string]string{"app.kubernetes.io/name": gatewayName}
	for k, v := range more {
		labels[k] = v
	}
	return labels
}

// gatewayJob is a pod that needs no right of any kind, as a Job that ends by itself when its runner has died.
func gatewayJob(image, namespace string, more map[string]string) *batchv1.Job {
	labels := gatewayLabels(more)
	no, yes, user, ttl, grace := false, true, int64(nobody), int32(keptForLogs), int64(0)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: gatewayName, Namespace: namespace, Labels: labels},
		Spec: batchv1.JobSpec{TTLSecondsAfterFinished: &ttl, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &no,
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user,
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
				Containers: []corev1.Container{{
					Name: gatewayName, Image: image,
					Args: []string{"gateway", "--listen", fmt.Sprintf("127.0.0.1:%d", GatewayPort), "--idle", idleTime.String()},
					SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
						Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				}},
			},
		}},
	}
}

// through dials by the gateway.
func (c *Cluster) through(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	client := c.gateway.client
	c.mu.Unlock()
	if client == nil {
		return nil, errors.New("the gateway in the cluster is not open")
	}
	return client.DialContext(ctx, network, address)
}

var _ clusters.Gatewayed = (*Cluster)(nil)
