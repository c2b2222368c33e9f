package deploy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

func resource(group, version, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

// A device plugin's token, as its node has it: it writes the inventory of that node, and nothing anywhere else.
func (s *site) pluginToken(t *testing.T) {
	for _, name := range []string{"mine", "other"} {
		_, err := s.Client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		must(t, err)
	}
	plugin := stack.NewPod(node, "plugin", stack.App("plugin"))
	plugin.Spec.ServiceAccountName, plugin.Spec.NodeName = "phasegpu-device-plugin", "mine"
	plugin, err := s.Create(t.Context(), plugin)
	must(t, err)
	request := &authenticationv1.TokenRequest{}
	request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
		APIVersion: "v1", Kind: "Pod", Name: plugin.Name, UID: plugin.UID,
	}
	accounts := s.Client.CoreV1().ServiceAccounts(node)
	answer, err := accounts.CreateToken(t.Context(), "phasegpu-device-plugin", request, metav1.CreateOptions{})
	must(t, err)
	config := rest.CopyConfig(s.Admin())
	config.BearerToken = answer.Status.Token
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	patch := func(ctx context.Context, name, metadata string, sub ...string) error {
		_, err := client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{%s}}`, metadata), metav1.PatchOptions{}, sub...)
		return err
	}
	const inventory = `"annotations":{"hami.io/node-nvidia-register":"[]"}`
	must(t, stack.Eventually(t.Context(), "the policy is obeyed", func(ctx context.Context) error {
		if err := patch(ctx, "other", inventory); !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), `of node "mine" may not change node "other"`) {
			return fmt.Errorf("another node's inventory: %v", err)
		}
		return nil
	}))
	must(t, patch(t.Context(), "mine", inventory))
	for _, c := range []struct {
		what string
		err  error
	}{
		{"another annotation", patch(t.Context(), "mine", `"annotations":{"hami.io/device-cordon":""}`)},
		{"a label", patch(t.Context(), "mine", `"labels":{"a":"b"}`)},
		{"the status", patch(t.Context(), "mine", inventory, "status")},
		{"deletion", client.CoreV1().Nodes().Delete(t.Context(), "other", metav1.DeleteOptions{})},
		{"deletion of a pod", client.CoreV1().Pods(node).Delete(t.Context(), plugin.Name, metav1.DeleteOptions{})},
		{"secrets", second(client.CoreV1().Secrets(node).List(t.Context(), metav1.ListOptions{}))},
		{"a pod's record", second(client.CoreV1().Pods(node).Patch(t.Context(), plugin.Name, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"hami.io/vgpu-devices-allocated":";"}}}`), metav1.PatchOptions{}))},
	} {
		if !apierrors.IsForbidden(c.err) {
			t.Errorf("%s: %v", c.what, c.err)
		}
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	must(t, s.Client.CoreV1().Pods(node).Delete(t.Context(), plugin.Name, now))
}

// With the auditor's roles one reads what `kubectl phasegpu audit` reads, and changes nothing. pods/proxy allows only
// GET.
func (s *site) auditor(t *testing.T) {
	subject := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "auditor"}}
	_, err := s.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "auditors"}, Subjects: subject,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "phasegpu-auditor"},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = s.Client.RbacV1().RoleBindings(system).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "auditors"}, Subjects: subject,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "phasegpu-auditor"},
	}, metav1.CreateOptions{})
	must(t, err)
	client, err := kubernetes.NewForConfig(s.User("auditor"))
	must(t, err)
	proxy := func(verb, namespace string) error {
		pod := client.CoreV1().RESTClient().Verb(verb).Namespace(namespace).Resource("pods").Name("none")
		return pod.SubResource("proxy").Suffix("debug/ledger").Do(t.Context()).Error()
	}
	must(t, stack.Eventually(t.Context(), "the auditor's rights are obeyed", func(ctx context.Context) error {
		return second(client.CoreV1().Pods("").List(ctx, metav1.ListOptions{}))
	}))
	for _, c := range []struct {
		what string
		err  error
		may  bool
	}{
		{"nodes", second(client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})), true},
		{"quotas", second(client.CoreV1().ResourceQuotas("").List(t.Context(), metav1.ListOptions{})), true},
		{"the Lease", second(client.CoordinationV1().Leases(system).Get(t.Context(), "phasegpu-scheduler",
			metav1.GetOptions{})), true},
		{"a page of an extender", proxy("GET", system), true},
		{"a POST to a pod", proxy("POST", system), false},
		{"a PUT to a pod", proxy("PUT", system), false},
		{"a page of another pod", proxy("GET", "default"), false},
		{"a page of a device plugin", proxy("GET", node), false},
		{"another Lease", second(client.CoordinationV1().Leases(system).Get(t.Context(), "other", metav1.GetOptions{})),
			false},
		{"secrets", second(client.CoreV1().Secrets(system).List(t.Context(), metav1.ListOptions{})), false},
		{"deletion of pods", client.CoreV1().Pods("default").Delete(t.Context(), "none", metav1.DeleteOptions{}),
			false},
		{"a node", client.CoreV1().Nodes().Delete(t.Context(), "other", metav1.DeleteOptions{}), false},
	} {
		if apierrors.IsForbidden(c.err) == c.may {
			t.Errorf("%s: %v", c.what, c.err)
		}
	}
	must(t, s.Client.RbacV1().ClusterRoleBindings().Delete(t.Context(), "auditors", metav1.DeleteOptions{}))
}

// second is the error of a call whose result does not matter.
func second[T any](_ T, err error) error { return err }
