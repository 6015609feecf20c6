package ssh

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"shakedown.dev/shakedown/history"
	"shakedown.dev/shakedown/teleport/identity"
)

// OpenError says why a connection or session could not be opened.
type OpenError struct {
	Phase  history.Phase       // the phase that failed
	Cut    history.Cut         // how the failure looked from here
	Reason string              // what the server said, if it said anything
	Hint   string              // what to do about it, if we know
	Phases []history.PhaseTime // all phases tried, the failed one last
	Err    error
}

func (e *OpenError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", e.Phase)
	if e.Reason != "" {
		b.WriteString(e.Reason)
	} else {
		b.WriteString(e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

func (e *OpenError) Unwrap() error { return e.Err }

// cutOf names how an error of a transport looks from here.
func cutOf(err error) history.Cut {
	var host *identity.HostError
	var netErr net.Error
	switch {
	case errors.As(err, &host):
		return history.CutProtocol
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return history.CutReset
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return history.CutTimeout
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return history.CutConnect
	case errors.As(err, &netErr) && netErr.Timeout():
		return history.CutTimeout
	case isDisconnect(err):
		return history.CutMessage
	// x/crypto says "unable to authenticate" with no type of its own.
	case err != nil && strings.Contains(err.Error(), "unable to authenticate"):
		return history.CutDenied
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return history.CutEOF
	}
	return history.CutProtocol
}

// isDisconnect tells whether err is an SSH disconnect message, for which x/crypto has no exported type.
func isDisconnect(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ssh: disconnect, reason")
}

// reasonCut names a refusal that came with words of the server.
func reasonCut(reason string) history.Cut {
	low := strings.ToLower(reason)
	switch {
	case strings.Contains(low, "denied"), strings.Contains(low, "not allowed"), strings.Contains(low, "required"), strings.Contains(low, "too many"), strings.Contains(low, "limit"):
		return history.CutDenied
	case reason == "":
		return history.CutProtocol
	}
	return history.CutUnrouted
}

// hint says what to do about a failure, as far as it can be told from here.
func (c *Client) hint(e *OpenError, t Target) string {
	if c.opts.Identity.Expired(c.opts.Now(), 0) {
		return fmt.Sprintf("the identity of %s expired at %s: sign a new one", c.opts.Identity.User, c.opts.Identity.Expires.Format("15:04:05"))
	}
	low := strings.ToLower(e.Reason)
	switch e.Phase {
	case history.PhaseResolve:
		return "the name is not known: is the proxy Service installed, and does this dialer use the cluster's DNS?"
	case history.PhaseConnect:
		if e.Cut == history.CutTimeout {
			return "nobody answers there, not even with a refusal: does a NetworkPolicy or firewall keep 3080 (443 at the Service) shut, or is the pod's node gone?"
		}
		if e.Cut == history.CutConnect {
			return "nothing listens there: proxies listen on 3080 in their pod and on 443 at the Service; 3023 only in proxyListenerMode separate"
		}
	case history.PhaseTLS:
		if hint := tlsHint(e.Err); hint != "" {
			return hint
		}
	case history.PhaseSSHProxy:
		if e.Cut == history.CutDenied {
			return fmt.Sprintf("the proxy does not know the authority that signed %s: was the identity signed by another cluster than %s?", c.opts.Identity.User, c.opts.Identity.Cluster)
		}
	case history.PhaseRoute:
		return routeHint(low, t)
	case history.PhaseSSHNode:
		if e.Cut == history.CutDenied && !c.opts.Identity.Allows(t.login(c.opts.Identity)) {
			return fmt.Sprintf("the identity of %s has no login %q, only %s: add it to the role's logins and sign anew", c.opts.Identity.User, t.login(c.opts.Identity), strings.Join(c.opts.Identity.Logins, ", "))
		}
		if e.Cut == history.CutDenied {
			return fmt.Sprintf("the node refused %s: does the role allow login %q and the node's labels?", c.opts.Identity.User, t.login(c.opts.Identity))
		}
		if e.Cut == history.CutEOF {
			return "the proxy routed to the node, but its tunnel or process ended before it answered"
		}
	}
	return closedHint(e)
}

// closedHint explains a connection that was closed without a word, which would else be told as EOF alone.
func closedHint(e *OpenError) string {
	switch {
	case e.Reason != "" || e.Cut != history.CutEOF && e.Cut != history.CutReset:
		return ""
	case e.Phase == history.PhaseShell:
		return "the node closed the session before its shell answered: has it lost its auth, or is it stopping?"
	}
	return "the other side closed the connection without a word: is it stopping, or no Teleport proxy at all?"
}

func tlsHint(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		return "the web certificate's authority is not trusted: give its CA, or leave it unchecked (hosts are checked by SSH either way)"
	case errors.As(err, &name):
		return "the web certificate is for another name"
	case strings.Contains(err.Error(), "no application protocol"):
		return "that port is no Teleport web port with TLS routing"
	}
	return ""
}

func routeHint(low string, t Target) string {
	switch {
	case strings.Contains(low, "agent forwarding required"):
		return "the cluster records at its proxies: offer the agent (ForwardAgent), and let the role have forward_agent"
	case strings.Contains(low, "ambiguous"):
		return "several nodes have that name: route by the node's UUID"
	case strings.Contains(low, "unknown cluster"):
		return fmt.Sprintf("%q is not the cluster's name", t.Cluster)
	case strings.Contains(low, "not found"), strings.Contains(low, "unable to locate"), strings.Contains(low, "offline"), strings.Contains(low, "no tunnel"), strings.Contains(low, "not connected"), strings.Contains(low, "failed to connect"), strings.Contains(low, "failed dialing"):
		return "the agent is not registered, or has no tunnel to this proxy (yet, or any more)"
	}
	return ""
}
