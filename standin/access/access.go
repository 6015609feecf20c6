// Package access decides what a user's roles allow. It is pure: roles and
// traits in, a yes or a reasoned no out.
package access

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gravitational/teleport/api/types"
)

// Checker is the sum of a user's roles.
type Checker struct {
	User   string
	Roles  []types.Role
	Traits map[string][]string
}

// Login says why the user may not log in as login on a server with labels.
func (c *Checker) Login(login string, labels map[string]string) error {
	for _, r := range c.Roles {
		if MatchLabels(r.GetNodeLabels(types.Deny), labels) && slices.Contains(c.expand(r.GetLogins(types.Deny)), login) {
			return c.denied(login)
		}
	}
	for _, r := range c.Roles {
		if MatchLabels(r.GetNodeLabels(types.Allow), labels) && slices.Contains(c.expand(r.GetLogins(types.Allow)), login) {
			return nil
		}
	}
	return c.denied(login)
}

func (c *Checker) denied(login string) error {
	return fmt.Errorf("access to node denied: user %s can not access node as %q", c.User, login)
}

// CanSee says whether a server with labels is shown to the user at all.
func (c *Checker) CanSee(labels map[string]string) bool {
	return c.any(func(r types.Role) bool {
		return len(c.expand(r.GetLogins(types.Allow))) > 0 && MatchLabels(r.GetNodeLabels(types.Allow), labels)
	})
}

// Logins lists every login that some role allows, in the order of the roles.
func (c *Checker) Logins() []string {
	return c.collect(func(r types.Role) []string { return r.GetLogins(types.Allow) })
}

// Kube returns the groups and users to impersonate on a Kubernetes cluster with
// labels, or the reason why the user may not use it.
func (c *Checker) Kube(labels map[string]string) (groups, users []string, err error) {
	for _, r := range c.Roles {
		if MatchLabels(r.GetKubernetesLabels(types.Allow), labels) {
			groups = appendNew(groups, c.expand(r.GetKubeGroups(types.Allow)))
			users = appendNew(users, c.expand(r.GetKubeUsers(types.Allow)))
		}
	}
	if len(groups) == 0 && len(users) == 0 {
		return nil, nil, fmt.Errorf("user %s is not allowed to access the kubernetes cluster: no kubernetes_groups or kubernetes_users in its roles", c.User)
	}
	return groups, users, nil
}

// ForwardAgent says whether any role allows agent forwarding.
func (c *Checker) ForwardAgent() bool {
	return c.any(func(r types.Role) bool { return r.GetOptions().ForwardAgent.Value() })
}

// PortForwarding is the role option port_forwarding; unset means yes.
func (c *Checker) PortForwarding() bool {
	return c.any(func(r types.Role) bool { return types.BoolDefaultTrue(r.GetOptions().PortForwarding) })
}

// FileCopying is the role option ssh_file_copy; unset means yes.
func (c *Checker) FileCopying() bool {
	return c.any(func(r types.Role) bool {
		opt := r.GetOptions().SSHFileCopy
		return opt == nil || opt.Value
	})
}

// SessionTTL is the shortest max_session_ttl of the roles that set one, or
// longest if none does.
func (c *Checker) SessionTTL(longest time.Duration) time.Duration {
	ttl := longest
	for _, r := range c.Roles {
		if d := r.GetOptions().MaxSessionTTL.Value(); d > 0 && d < ttl {
			ttl = d
		}
	}
	return ttl
}

// MaxSessions is the smallest max_sessions (channels per connection); 0: no limit.
func (c *Checker) MaxSessions() int64 {
	return c.smallest(func(r types.Role) int64 { return r.GetOptions().MaxSessions })
}

// MaxConnections is the smallest max_connections (over the cluster); 0: no limit.
func (c *Checker) MaxConnections() int64 {
	return c.smallest(func(r types.Role) int64 { return r.GetOptions().MaxConnections })
}

// StrictRecording says whether a session must end when it cannot be recorded:
// record_session ssh (or default) is strict in any role. The default is
// best_effort: the session goes on without a recording.
func (c *Checker) StrictRecording() bool {
	return c.any(func(r types.Role) bool {
		rec := r.GetOptions().RecordSession
		if rec == nil {
			return false
		}
		mode := string(rec.SSH)
		if mode == "" {
			mode = string(rec.Default)
		}
		return mode == "strict"
	})
}

// Allowed says whether a rule of the roles lets the user do verb on resource.
// Deny wins; where-conditions are not imitated and count as met.
func (c *Checker) Allowed(resource, verb string) error {
	matches := func(rules []types.Rule) bool {
		return slices.ContainsFunc(rules, func(r types.Rule) bool { return r.HasResource(resource) && r.HasVerb(verb) })
	}
	if c.any(func(r types.Role) bool { return matches(r.GetRules(types.Deny)) }) ||
		!c.any(func(r types.Role) bool { return matches(r.GetRules(types.Allow)) }) {
		return fmt.Errorf("access denied to perform action %q on %q", verb, resource)
	}
	return nil
}

func (c *Checker) any(f func(types.Role) bool) bool { return slices.ContainsFunc(c.Roles, f) }

func (c *Checker) smallest(f func(types.Role) int64) int64 {
	var min int64
	for _, r := range c.Roles {
		if n := f(r); n > 0 && (min == 0 || n < min) {
			min = n
		}
	}
	return min
}

func (c *Checker) collect(f func(types.Role) []string) []string {
	var out []string
	for _, r := range c.Roles {
		out = appendNew(out, c.expand(f(r)))
	}
	return out
}

// expand replaces {{internal.X}} and {{external.X}} by the user's traits.
func (c *Checker) expand(values []string) []string {
	var out []string
	for _, v := range values {
		name, ok := traitName(v)
		if !ok {
			out = append(out, v)
			continue
		}
		out = append(out, c.Traits[name]...)
	}
	return out
}

func traitName(v string) (string, bool) {
	v, ok := strings.CutPrefix(v, "{{")
	v, end := strings.CutSuffix(v, "}}")
	if !ok || !end {
		return "", false
	}
	v = strings.TrimSpace(v)
	for _, prefix := range []string{"internal.", "external."} {
		if name, ok := strings.CutPrefix(v, prefix); ok {
			return name, true
		}
	}
	return "", false
}

func appendNew(to, from []string) []string {
	for _, v := range from {
		if !slices.Contains(to, v) {
			to = append(to, v)
		}
	}
	return to
}
