//go:build kind

package kind_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestFilterAndBindAreOutOfReach: kube-scheduler calls the extender on the pod's own loopback. From elsewhere, the API
// server or the pod's node, the port is closed.
func TestFilterAndBindAreOutOfReach(t *testing.T) {
	s := kind.Begin(t)
	name, err := s.Cluster.Leader(s.Context())
	s.Must(err)
	leader, err := s.Cluster.Pod(s.Context(), stack.NewPod(stack.SystemNamespace, name))
	s.Must(err)
	if _, err := s.Cluster.PodPage(s.Context(), leader.Namespace, name, 8080, "/healthz"); err != nil {
		t.Fatalf("the pod does not answer at all: %v", err)
	}
	for _, path := range []string{"/filter", "/preempt", "/bind"} {
		if _, err := s.Cluster.PodPage(s.Context(), leader.Namespace, name, 8888, path); err == nil ||
			!strings.Contains(err.Error(), "refused") {
			t.Errorf("%s through the API server: %v", path, err)
		}
	}
	connect := func(port int) error {
		_, err := s.Cluster.OnNode(s.Context(), leader.Spec.NodeName, "timeout", "5", "bash", "-c",
			fmt.Sprintf("exec 3<>/dev/tcp/%s/%d", leader.Status.PodIP, port))
		return err
	}
	s.Must(connect(8080))
	if err := connect(8888); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("from its node: %v", err)
	}
}

// TestAuditor: the two roles that the manifests bring are what `kubectl phasegpu audit` needs, through the API server,
// and with one of them it says what is missing.
func TestAuditor(t *testing.T) {
	s := kind.Begin(t)
	account, err := s.Cluster.Client.CoreV1().ServiceAccounts(s.Namespace).Create(s.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "auditor"}}, metav1.CreateOptions{})
	s.Must(err)
	token, err := s.Cluster.Client.CoreV1().ServiceAccounts(s.Namespace).CreateToken(s.Context(), account.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	s.Must(err)
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: account.Name}}
	rbac := s.Cluster.Client.RbacV1()
	role := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "phasegpu-auditor"}
	}
	_, err = rbac.ClusterRoleBindings().Create(s.Context(),
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}, RoleRef: role("ClusterRole"),
			Subjects: subjects}, metav1.CreateOptions{})
	s.Must(err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = rbac.ClusterRoleBindings().Delete(ctx, s.Namespace, metav1.DeleteOptions{})
		_ = rbac.RoleBindings(stack.SystemNamespace).Delete(ctx, s.Namespace, metav1.DeleteOptions{})
	})
	dir := t.TempDir()
	err = s.Cluster.AuditAs(s.Context(), token.Status.Token, dir)
	if err == nil || !strings.Contains(err.Error(), "forbidden") || !strings.Contains(err.Error(), "leases") {
		t.Errorf("with one role: %v", err)
	}
	_, err = rbac.RoleBindings(stack.SystemNamespace).Create(s.Context(),
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}, RoleRef: role("Role"),
			Subjects: subjects}, metav1.CreateOptions{})
	s.Must(err)
	s.Must(stack.Eventually(s.Context(), "an auditor may audit", func(ctx context.Context) error {
		return s.Cluster.AuditAs(ctx, token.Status.Token, dir)
	}))
}
