package auth

import (
	"time"

	"github.com/gravitational/teleport/api/types"
)

// presetRoles are the roles that every new cluster has: editor, access, auditor.
func presetRoles() []*types.RoleV5 {
	rw := []string{types.VerbList, types.VerbCreate, types.VerbRead, types.VerbUpdate, types.VerbDelete}
	ro := []string{types.VerbList, types.VerbRead}
	all := types.Labels{types.Wildcard: {types.Wildcard}}
	var editor []types.Rule
	for _, kind := range []string{types.KindUser, types.KindRole, types.KindToken, types.KindClusterAuthPreference, types.KindClusterNetworkingConfig, types.KindSessionRecordingConfig} {
		editor = append(editor, types.NewRule(kind, rw))
	}
	sessions := types.Rule{Resources: []string{types.KindSession}, Verbs: ro, Where: "contains(session.participants, user.metadata.name)"}
	return []*types.RoleV5{
		preset("editor", "Edit cluster configuration", types.RoleConditions{Rules: editor}),
		preset("access", "Access cluster resources", types.RoleConditions{
			NodeLabels: all, KubernetesLabels: all, AppLabels: all, DatabaseLabels: all,
			Logins: []string{"{{internal.logins}}"}, KubeUsers: []string{"{{internal.kubernetes_users}}"}, KubeGroups: []string{"{{internal.kubernetes_groups}}"},
			Rules: []types.Rule{types.NewRule(types.KindEvent, ro), sessions},
		}),
		preset("auditor", "Review cluster events and replay sessions", types.RoleConditions{Rules: []types.Rule{
			types.NewRule(types.KindSession, ro), types.NewRule(types.KindEvent, ro), types.NewRule(types.KindSessionTracker, ro),
		}}),
	}
}

func preset(name, description string, allow types.RoleConditions) *types.RoleV5 {
	allow.Namespaces = []string{"default"}
	return &types.RoleV5{
		Kind: types.KindRole, Version: types.V5,
		Metadata: types.Metadata{Name: name, Namespace: "default", Description: description},
		Spec: types.RoleSpecV5{
			Options: types.RoleOptions{
				CertificateFormat: "standard", MaxSessionTTL: types.NewDuration(30 * time.Hour),
				PortForwarding: types.NewBoolOption(true), ForwardAgent: types.NewBool(true),
			},
			Allow: allow,
		},
	}
}
