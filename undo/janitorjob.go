package undo

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// JanitorName names all that is made for the janitor of a run: a namespace, so that no quota or rollout of the
// system under test concerns it, and a role.
func JanitorName(run string) string { return "shakedown-janitor-" + run }

// Employ starts the janitor of a run as a Job of the cluster, from an image of this program: its entrypoint
// is the shakedown command. ns is where the run's Lease and intents are. The run's Lease must be there already, or the janitor would take the run for
// one that is over.
func Employ(ctx context.Context, client kubernetes.Interface, ns, run, image string) error {
	wide := metav1.ObjectMeta{Name: JanitorName(run), Labels: map[string]string{RunLabel: run}}
	home, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: wide}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("employ a janitor: %w", err)
	}
	// What is not in the namespace goes with it all the same: a role cannot take itself away.
	wide.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: home.Name, UID: home.UID}}
	meta := metav1.ObjectMeta{Name: wide.Name, Namespace: wide.Name, Labels: wide.Labels}
	if _, err := client.CoreV1().ServiceAccounts(meta.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("employ a janitor: %w", err)
	}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: wide, Rules: janitorRules(meta.Name)}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("employ a janitor: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: wide,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: meta.Name, Namespace: meta.Namespace}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("employ a janitor: %w", err)
	}
	if _, err := client.BatchV1().Jobs(meta.Namespace).Create(ctx, janitorJob(meta, ns, run, image), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("employ a janitor: %w", err)
	}
	return nil
}

// janitorRules are what undoing by the API takes, and to take itself away.
func janitorRules(self string) []rbacv1.PolicyRule {
	change := []string{"get", "list", "patch", "update", "delete"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "pods", "resourcequotas"}, Verbs: change},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments", "statefulsets", "daemonsets"}, Verbs: change},
		{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"}, Verbs: change},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: change},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{self}, Verbs: []string{"delete"}},
	}
}

// janitorJob is one pod, started again wherever it or its node dies: the faults of its run hit it, too.
func janitorJob(meta metav1.ObjectMeta, ns, run, image string) *batchv1.Job {
	again, no, id := int32(1000), false, int64(65534)
	return &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
		BackoffLimit: &again,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{RunLabel: run, "app.kubernetes.io/name": "shakedown-janitor"}},
			Spec: corev1.PodSpec{
				ServiceAccountName: meta.Name, RestartPolicy: corev1.RestartPolicyOnFailure,
				Tolerations:     tolerations(),
				SecurityContext: &corev1.PodSecurityContext{RunAsUser: &id, RunAsGroup: &id},
				Containers: []corev1.Container{{
					Name: "janitor", Image: image, Args: []string{"janitor", "--run", run, "--namespace", ns},
					SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				}},
			},
		},
	}}
}

// tolerations let the janitor begin where the run's own taints and cordons would keep it off, and leave a
// node that died at once.
func tolerations() []corev1.Toleration {
	soon := int64(5)
	return []corev1.Toleration{
		{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &soon},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &soon},
	}
}
