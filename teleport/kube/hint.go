package kube

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"shakedown.dev/shakedown/history"
)

// hint says what to do about a failure, as far as it can be told from here.
func (c *Client) hint(e *OpenError) string {
	id := c.opts.Identity
	low := strings.ToLower(e.Reason)
	switch {
	case id.Expired(time.Now(), 0):
		return fmt.Sprintf("the identity of %s expired at %s: sign a new one", id.User, id.Expires.Format("15:04:05"))
	case e.Cut == history.CutConnect:
		return "nothing listens there: Kubernetes is served on the web port (3080 in a proxy's pod, 443 at the Service), or on 3026 in proxyListenerMode separate"
	case e.Phase == history.PhaseConnect && e.Cut == history.CutTimeout:
		return "nobody answers there, not even with a refusal: does a NetworkPolicy or firewall keep 3080 (443 at the Service) shut, or is the pod's node gone?"
	case strings.Contains(low, "kubernetes cluster") && strings.Contains(low, "not found"):
		return "was the identity signed for the right Kubernetes cluster, and does its kubernetes_service run?"
	case e.Status == http.StatusForbidden, e.Status == http.StatusUnauthorized:
		return fmt.Sprintf("the role of %s needs kubernetes_groups and kubernetes_labels that match", id.User)
	case strings.Contains(low, "pods") && e.Status == http.StatusNotFound:
		return "the pod is gone"
	case e.Reason == "" && (e.Cut == history.CutEOF || e.Cut == history.CutReset):
		return "the other side closed the connection without a word: is the proxy stopping, or is that port no Teleport proxy's?"
	}
	return c.strangerHint(e.Err)
}

// strangerHint explains a handshake in which one side did not know the other's authority or name.
func (c *Client) strangerHint(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, &unknown), strings.Contains(err.Error(), "bad certificate"), strings.Contains(err.Error(), "unknown certificate authority"):
		return fmt.Sprintf("proxy and identity do not have the same authority: was the identity of %s signed by another cluster than %s, or by this one before it was made anew?", c.opts.Identity.User, c.opts.Identity.Cluster)
	case errors.As(err, &name):
		return "that port's certificate is not for Kubernetes: it is served on the web port with TLS routing, or on 3026 in proxyListenerMode separate"
	}
	return ""
}
