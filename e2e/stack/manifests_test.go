package stack

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/e2e/checkout"
)

// TestBases: the committed bases are read whole, and what is left out here is only what pods need.
func TestBases(t *testing.T) {
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	installed := map[string]int{}
	for _, base := range []string{"webhook", "extender"} {
		objects, err := Kustomize(root, base+"/manifests")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if !runsAsProcess(o) {
				installed[o.GetKind()]++
			}
		}
	}
	for _, kind := range []string{
		"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
		"MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	} {
		if installed[kind] == 0 {
			t.Errorf("no %s is installed, of %v", kind, installed)
		}
	}
	for _, kind := range []string{"Deployment", "Service", "PodDisruptionBudget"} {
		if installed[kind] != 0 {
			t.Errorf("%s is installed", kind)
		}
	}
}

// TestGeneratedNames: kustomize takes a resourceName in a role for a reference to any object of that name, and replaces
// it by the name with a hash that it gives to what it generates. Then the role would not allow what it should.
func TestGeneratedNames(t *testing.T) {
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Kustomize(root, "kind/overlay")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, o := range objects {
		rules, _, err := unstructured.NestedSlice(o.Object, "rules")
		if err != nil || !strings.HasSuffix(o.GetKind(), "Role") {
			continue
		}
		for _, rule := range rules {
			resourceNames, _, err := unstructured.NestedStringSlice(rule.(map[string]any), "resourceNames")
			if err != nil {
				t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
			for _, name := range resourceNames {
				named++
				if regexp.MustCompile(`-[bcdfghkmt2456789]{10}$`).MatchString(name) {
					t.Errorf("%s %s names %s, which kustomize has made of another name", o.GetKind(), o.GetName(), name)
				}
			}
		}
	}
	if named == 0 {
		t.Error("no role names an object")
	}
}

func TestPointAt(t *testing.T) {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`
webhooks:
- name: a
  failurePolicy: Fail
  clientConfig: {service: {name: s, namespace: n, path: /mutate, port: 443}}
`), &o.Object); err != nil {
		t.Fatal(err)
	}
	if err := pointAt(o, "https://127.0.0.1:1234", []byte("CA")); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"webhooks": []any{map[string]any{
		"name": "a", "failurePolicy": "Fail",
		"clientConfig": map[string]any{
			"url": "https://127.0.0.1:1234/mutate", "caBundle": base64.StdEncoding.EncodeToString([]byte("CA")),
		},
	}}}
	if diff := cmp.Diff(want, o.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSchedulerConfig: nothing of the committed configuration is lost but what must differ here.
func TestSchedulerConfig(t *testing.T) {
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "extender", "manifests", "scheduler-config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := yaml.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	want["clientConnection"].(map[string]any)["kubeconfig"] = "/k"
	want["extenders"].([]any)[0].(map[string]any)["urlPrefix"] = "http://127.0.0.1:1"
	want["parallelism"] = float64(1)
	adapted, err := schedulerConfig(root, "http://127.0.0.1:1", "/k",
		func(config map[string]any) { config["parallelism"] = 1 })
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(adapted, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMetric(t *testing.T) {
	const metrics = "# HELP a b\n# TYPE a counter\na{x=\"1\"} 3\nab 4\na 5.5\n"
	for series, want := range map[string]string{`a{x="1"}`: "3", "a": "5.5", "ab": "4", "b": ""} {
		if got, ok := Metric(metrics, series); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", series, got, ok, want)
		}
	}
}

func TestDiffer(t *testing.T) {
	a := map[string]Amount{"n/g": {1, 100, 0}}
	if err := differ("device", a, map[string]Amount{"n/g": {1, 100, 0}}); err != nil {
		t.Error(err)
	}
	for _, got := range []map[string]Amount{{}, {"n/g": {1, 101, 0}}, {"n/g": {1, 100, 0}, "n/h": {0, 1, 0}}} {
		if err := differ("device", a, got); err == nil {
			t.Errorf("%v passes for %v", got, a)
		}
	}
}
