package cloud

import rbacv1 "k8s.io/api/rbac/v1"

// Rules are what Run needs to be allowed, cluster-wide.
func Rules() []rbacv1.PolicyRule {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	return []rbacv1.PolicyRule{
		rule("", []string{"services"}, "get", "list", "watch"),
		rule("", []string{"nodes"}, "get"),
		rule("", []string{"services/status"}, "patch"),
		rule("", []string{"persistentvolumes"}, "get", "list", "watch", "create", "delete", "update", "patch"),
		rule("", []string{"persistentvolumeclaims"}, "get", "list", "watch", "update"),
		rule("", []string{"events"}, "create", "patch", "update"),
		rule("storage.k8s.io", []string{"storageclasses"}, "get", "list", "watch", "create"),
	}
}
