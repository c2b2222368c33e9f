package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/refit"
)

// read returns a file of the module.
func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	must(t, err)
	return string(text)
}

// load reads into object the one document of its kind in a manifest, which may have no unknown field.
func load(t *testing.T, file, kind string, object any) {
	t.Helper()
	for _, document := range strings.Split(read(t, "manifests", file), "\n---\n") {
		if !strings.Contains("\n"+document, "\nkind: "+kind+"\n") {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		return
	}
	t.Fatalf("%s has no %s", file, kind)
}

// The device plugins' way to the handler: Service, port, flags, certificate.
func TestManifestsReachTheHandler(t *testing.T) {
	var service corev1.Service
	var deployment appsv1.Deployment
	var network networkingv1.NetworkPolicy
	load(t, "service.yaml", "Service", &service)
	load(t, "deployment.yaml", "Deployment", &deployment)
	load(t, "network-policy.yaml", "NetworkPolicy", &network)
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	o, err := parse(container.Args, io.Discard)
	must(t, err)
	ports := map[string]string{}
	for _, p := range container.Ports {
		ports[p.Name] = fmt.Sprintf(":%d", p.ContainerPort)
	}
	if diff := cmp.Diff(map[string]string{"https": o.listen, "metrics": o.healthListen}, ports); diff != "" {
		t.Errorf("ports (-flags +manifest): %s", diff)
	}
	if p := service.Spec.Ports[0]; service.Name != "phasegpu-numarefit" || p.Port != 443 ||
		p.TargetPort.String() != "https" || o.listen != ":8443" {
		t.Errorf("Service %s, port %d to %s, listening on %s", service.Name, p.Port, p.TargetPort.String(), o.listen)
	}
	if dir := container.VolumeMounts[0].MountPath; filepath.Dir(o.certFile) != dir || filepath.Dir(o.keyFile) != dir ||
		pod.Volumes[0].Secret.SecretName != "phasegpu-numarefit-tls" {
		t.Errorf("the certificate is mounted at %s and read from %s and %s", dir, o.certFile, o.keyFile)
	}
	if grace := *pod.TerminationGracePeriodSeconds; grace <= int64(o.drain.Seconds())+4 {
		t.Errorf("%d s of grace for %v of drain and 4 s of shutdown", grace, o.drain)
	}
	if *deployment.Spec.Replicas < 2 {
		t.Error("one replica is none while it is replaced")
	}
	from := network.Spec.Ingress[0]
	if len(from.From) != 1 ||
		from.From[0].PodSelector.MatchLabels["app.kubernetes.io/name"] != "phasegpu-device-plugin" ||
		from.Ports[0].Port.String() != "https" {
		t.Errorf("who may connect: %+v", from)
	}
}

// The service reads pods and nodes, patches pods, reviews tokens and writes events, and nothing else …
func TestManifestsGiveTheLeast(t *testing.T) {
	var role rbacv1.ClusterRole
	load(t, "rbac.yaml", "ClusterRole", &role)
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	var deployment appsv1.Deployment
	load(t, "deployment.yaml", "Deployment", &deployment)
	pod := deployment.Spec.Template.Spec
	s := pod.Containers[0].SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem ||
		s.Capabilities.Drop[0] != "ALL" ||
		pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Error("the pod is not restricted (Pod Security Standards)")
	}
}

// With cert-manager the service copies its CA for the device plugins: the ConfigMap exists, the flag names it, RBAC
// allows it, and the CA is mounted beside the certificate.
func TestManifestsTellTheCA(t *testing.T) {
	var component struct{ Patches []struct{ Patch string } }
	if err := yaml.Unmarshal([]byte(read(t, "manifests", "cert-manager", "kustomization.yaml")),
		&component); err != nil {
		t.Fatal(err)
	}
	var patch []struct{ Op, Path, Value string }
	must(t, yaml.UnmarshalStrict([]byte(component.Patches[0].Patch), &patch))
	o, err := parse([]string{patch[0].Value}, io.Discard)
	must(t, err)
	file := filepath.Join("cert-manager", "trust.yaml")
	var published corev1.ConfigMap
	load(t, file, "ConfigMap", &published)
	if published.Namespace != o.caNamespace || published.Name != o.caName {
		t.Errorf("it writes ConfigMap %s/%s, and %s/%s is there", o.caNamespace, o.caName, published.Namespace, published.Name)
	}
	var role rbacv1.Role
	load(t, file, "Role", &role)
	want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"},
		ResourceNames: []string{o.caName}, Verbs: []string{"get", "update"}}}
	if diff := cmp.Diff(want, role.Rules); diff != "" || role.Namespace != o.caNamespace {
		t.Errorf("rules in namespace %s (-want +got):\n%s", role.Namespace, diff)
	}
	var deployment appsv1.Deployment
	load(t, "deployment.yaml", "Deployment", &deployment)
	if items := deployment.Spec.Template.Spec.Volumes[0].Secret.Items; len(items) > 0 {
		t.Errorf("of the Secret only %v are mounted", items)
	}
}

// … and what it patches is the records of families that can be refitted. That the API server holds it to that
// is tested in e2e/refit.
func TestPolicyNamesTheRecords(t *testing.T) {
	var policy admissionregistrationv1.ValidatingAdmissionPolicy
	load(t, "pod-policy.yaml", "ValidatingAdmissionPolicy", &policy)
	var want []string
	for _, f := range classify.Families() {
		if f.Refit {
			want = append(want, f.PodAnnotation)
		}
	}
	got := regexp.MustCompile(`'([^']+)'`).FindAllStringSubmatch(policy.Spec.Variables[0].Expression, -1)
	var names []string
	for _, match := range got {
		names = append(names, match[1])
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("annotations (-families +policy): %s", diff)
	}
	for _, name := range want {
		if !strings.Contains(policy.Spec.Validations[1].Message, name) {
			t.Errorf("the message does not name %s", name)
		}
	}
}

// README lists the reasons as gen/refit does.
func TestReadmeListsTheReasons(t *testing.T) {
	text := read(t, "README.md")
	var rows []string
	for _, f := range refit.Reasons() {
		again := ""
		if f.Again {
			again = "yes"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %d | %s | %s |\n", f.Reason, f.Status, again, f.Means))
	}
	if want := "| reason | status | again | |\n|---|---|---|---|\n" + strings.Join(rows,
		"") + "\n"; !strings.Contains(text, want) {
		t.Errorf("README.md must have this table:\n%s", want)
	}
}

func TestFlags(t *testing.T) {
	for _, bad := range [][]string{
		{"--service-account=phasegpu-device-plugin"}, {"--service-account=/x"}, {"--service-account=x/"},
		{"--service-account=a/b/c"}, {"--service-account=a:b/c"},
		{"--ca-configmap=phasegpu-numarefit-ca"}, {"--audience="}, {"--release=never"}, {"--device-policy=random"},
		{"extra"}, {"--unknown"},
	} {
		if _, err := parse(bad, io.Discard); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
	o, err := parse([]string{"--service-account=team/plugin", "--release=hold", "--device-policy=spread"}, io.Discard)
	if err != nil || o.namespace != "team" || o.serviceAccount != "plugin" || o.defaults.Release.String() != "hold" ||
		o.defaults.DevicePolicy.String() != "spread" || o.audience != refit.Audience {
		t.Errorf("%+v, %v", o, err)
	}
}
