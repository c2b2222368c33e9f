package main

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/yamltest"
)

// The API server's way to the handler: path, Service, port, flags.
func TestManifestsReachTheHandler(t *testing.T) {
	configuration := yamltest.Manifest[admissionregistrationv1.MutatingWebhookConfiguration](t, "webhook.yaml", "MutatingWebhookConfiguration")
	service := yamltest.Manifest[corev1.Service](t, "service.yaml", "Service")
	deployment := yamltest.Manifest[appsv1.Deployment](t, "deployment.yaml", "Deployment")
	container := deployment.Spec.Template.Spec.Containers[0]

	o, err := parse(container.Args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	if diff := cmp.Diff(map[string]int32{"https": 8443, "metrics": 8080}, ports); diff != "" || o.listen != ":8443" || o.healthListen != ":8080" {
		t.Errorf("ports (-want +got):\n%s, listening on %s and %s", diff, o.listen, o.healthListen)
	}
	if dir := container.VolumeMounts[0].MountPath; filepath.Dir(o.certFile) != dir || filepath.Dir(o.keyFile) != dir {
		t.Errorf("the certificate is mounted at %s and read from %s and %s", dir, o.certFile, o.keyFile)
	}
	hook := configuration.Webhooks[0]
	to := hook.ClientConfig.Service
	if to.Name != service.Name || to.Namespace != service.Namespace || *to.Port != service.Spec.Ports[0].Port || *to.Path != "/mutate" {
		t.Errorf("the webhook calls %v", to)
	}
	if port := service.Spec.Ports[0].TargetPort.String(); port != "https" {
		t.Errorf("the Service sends to port %s", port)
	}
	if *hook.FailurePolicy != admissionregistrationv1.Fail || len(hook.MatchConditions) == 0 {
		t.Errorf("failure policy %v, %d match conditions", *hook.FailurePolicy, len(hook.MatchConditions))
	}
	drain := int64(o.drain.Seconds())
	if grace := *deployment.Spec.Template.Spec.TerminationGracePeriodSeconds; grace <= drain+10 {
		t.Errorf("%d s of grace for %d s of drain and 10 s of shutdown", grace, drain)
	}
}

// The webhook may read what its feed watches and nothing else.
func TestManifestsGiveTheLeast(t *testing.T) {
	role := yamltest.Manifest[rbacv1.ClusterRole](t, "rbac.yaml", "ClusterRole")
	want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "resourcequotas"}, Verbs: []string{"list", "watch"}}}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// The policy and the classifiers agree on which annotations are protected, and from whom.
func TestManifestsProtectTheRecords(t *testing.T) {
	policy := yamltest.Manifest[admissionregistrationv1.ValidatingAdmissionPolicy](t, "records-policy.yaml", "ValidatingAdmissionPolicy")
	list := policy.Spec.Variables[0]
	for _, key := range classify.ProtectedAnnotations() {
		if !strings.Contains(list.Expression, "'"+key+"'") {
			t.Errorf("variable %s lacks %s", list.Name, key)
		}
	}
	if got, want := strings.Count(list.Expression, "/"), len(classify.ProtectedAnnotations()); got != want {
		t.Errorf("variable %s has %d annotations, want %d", list.Name, got, want)
	}
	for _, account := range []string{"phasegpu-extender", "phasegpu-numarefit"} {
		if !strings.Contains(policy.Spec.MatchConditions[0].Expression, "'system:serviceaccount:phasegpu-system:"+account+"'") {
			t.Errorf("%s may not write", account)
		}
	}
	rule := policy.Spec.MatchConstraints.ResourceRules[0].RuleWithOperations
	for _, resource := range []string{"pods", "pods/*", "bindings"} {
		if !slices.Contains(rule.Resources, resource) {
			t.Errorf("%s are not matched", resource)
		}
	}
}
