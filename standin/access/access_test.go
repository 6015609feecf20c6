package access

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gravitational/teleport/api/types"
)

func role(t *testing.T, name string, change func(*types.RoleV5)) types.Role {
	t.Helper()
	r := &types.RoleV5{Version: types.V5, Metadata: types.Metadata{Name: name}}
	change(r)
	if err := r.CheckAndSetDefaults(); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLogin(t *testing.T) {
	prod := types.Labels{"env": {"prod"}}
	all := types.Labels{"*": {"*"}}
	for _, row := range []struct {
		name        string
		allow, deny types.RoleConditions
		login       string
		labels      map[string]string
		want        bool
	}{
		{"login and labels given", types.RoleConditions{Logins: []string{"root"}, NodeLabels: all}, types.RoleConditions{}, "root", nil, true},
		{"a login that is not given", types.RoleConditions{Logins: []string{"root"}, NodeLabels: all}, types.RoleConditions{}, "bob", nil, false},
		{"labels that do not match", types.RoleConditions{Logins: []string{"root"}, NodeLabels: prod}, types.RoleConditions{}, "root", map[string]string{"env": "test"}, false},
		{"labels that match", types.RoleConditions{Logins: []string{"root"}, NodeLabels: prod}, types.RoleConditions{}, "root", map[string]string{"env": "prod", "x": "y"}, true},
		{"a selector without labels matches nothing", types.RoleConditions{Logins: []string{"root"}}, types.RoleConditions{}, "root", nil, false},
		{"deny beats allow", types.RoleConditions{Logins: []string{"root"}, NodeLabels: all}, types.RoleConditions{Logins: []string{"root"}, NodeLabels: prod}, "root", map[string]string{"env": "prod"}, false},
		{"a trait fills in the login", types.RoleConditions{Logins: []string{"{{internal.logins}}"}, NodeLabels: all}, types.RoleConditions{}, "alice", nil, true},
		{"a glob", types.RoleConditions{Logins: []string{"root"}, NodeLabels: types.Labels{"env": {"pr*"}}}, types.RoleConditions{}, "root", map[string]string{"env": "prod"}, true},
		{"a regular expression", types.RoleConditions{Logins: []string{"root"}, NodeLabels: types.Labels{"env": {"^(a|b)$"}}}, types.RoleConditions{}, "root", map[string]string{"env": "b"}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := &Checker{User: "u", Traits: map[string][]string{"logins": {"alice"}}, Roles: []types.Role{role(t, "r", func(r *types.RoleV5) { r.Spec.Allow, r.Spec.Deny = row.allow, row.deny })}}
			if err := c.Login(row.login, row.labels); (err == nil) != row.want {
				t.Errorf("got %v, want allowed %t", err, row.want)
			}
		})
	}
}

func TestRolesAddUp(t *testing.T) {
	all := types.Labels{"*": {"*"}}
	c := &Checker{Roles: []types.Role{
		role(t, "a", func(r *types.RoleV5) {
			r.Spec.Allow = types.RoleConditions{Logins: []string{"root", "bob"}, KubernetesLabels: all, KubeGroups: []string{"g1"}}
			r.Spec.Options = types.RoleOptions{MaxSessionTTL: types.NewDuration(8 * time.Hour), ForwardAgent: types.NewBool(true), MaxConnections: 5}
		}),
		role(t, "b", func(r *types.RoleV5) {
			r.Spec.Allow = types.RoleConditions{Logins: []string{"bob", "eve"}, KubernetesLabels: all, KubeGroups: []string{"g2"}, Rules: []types.Rule{types.NewRule("event", []string{"list"})}}
			r.Spec.Options = types.RoleOptions{MaxSessionTTL: types.NewDuration(2 * time.Hour), MaxConnections: 3, RecordSession: &types.RecordSession{SSH: "strict"}}
		}),
	}}
	if diff := cmp.Diff([]string{"root", "bob", "eve"}, c.Logins()); diff != "" {
		t.Error(diff)
	}
	if groups, _, err := c.Kube(nil); err != nil || !cmp.Equal(groups, []string{"g1", "g2"}) {
		t.Errorf("groups %v and %v", groups, err)
	}
	if got := c.SessionTTL(30 * time.Hour); got != 2*time.Hour {
		t.Errorf("session TTL is %s, want the shortest", got)
	}
	if c.MaxConnections() != 3 || !c.ForwardAgent() || !c.StrictRecording() {
		t.Errorf("connections %d, agent %t, strict %t", c.MaxConnections(), c.ForwardAgent(), c.StrictRecording())
	}
	if c.Allowed("event", "list") != nil || c.Allowed("event", "read") == nil || c.Allowed("session", "list") == nil {
		t.Error("rules do not decide")
	}
}

func TestNothingIsAllowedWithoutRoles(t *testing.T) {
	c := &Checker{User: "u"}
	if c.Login("root", nil) == nil || c.Allowed("event", "list") == nil || c.ForwardAgent() || c.StrictRecording() {
		t.Error("something is")
	}
	if _, _, err := c.Kube(nil); err == nil {
		t.Error("Kubernetes is")
	}
}
