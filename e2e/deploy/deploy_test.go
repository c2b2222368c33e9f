package deploy

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/phasegpu/phasegpu/e2e/checkout"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// each runs a test on every kustomization that users apply.
func each(t *testing.T, test func(*testing.T, []*unstructured.Unstructured)) {
	t.Helper()
	root, err := checkout.Root()
	must(t, err)
	for _, dir := range []string{"deploy", "deploy/cert-manager", "kind/overlay", "kind/cert-manager/overlay"} {
		t.Run(dir, func(t *testing.T) {
			objects, err := stack.Kustomize(root, dir)
			must(t, err)
			test(t, objects)
		})
	}
}

// Workload is an object that makes pods.
type Workload struct {
	Kind, Namespace, Name string
	Template              corev1.PodTemplateSpec
}

// convert reads a part of an object as a type. Fields that the type does not have are an error.
func convert(t *testing.T, o *unstructured.Unstructured, part map[string]any, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(part, into, true); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

// workloads returns those among the objects.
func workloads(t *testing.T, objects []*unstructured.Unstructured) (all []Workload) {
	t.Helper()
	for _, o := range objects {
		template, there, err := unstructured.NestedMap(o.Object, "spec", "template")
		must(t, err)
		if there {
			w := Workload{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
			convert(t, o, template, &w.Template)
			all = append(all, w)
		}
	}
	if len(all) < 4 {
		t.Fatalf("%d workloads", len(all))
	}
	return all
}

// typed returns the objects of a kind, as that type.
func typed[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) (all []T) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind {
			var one T
			convert(t, o, o.Object, &one)
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no %s", kind)
	}
	return all
}

// By Pod Security's own evaluator all pods are restricted but the device plugin's, which has no more than it says;
// and the namespaces hold them to it.
func TestPodSecurity(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	each(t, func(t *testing.T, objects []*unstructured.Unstructured) {
		level := map[string]string{}
		for _, n := range typed[corev1.Namespace](t, objects, "Namespace") {
			level[n.Name] = n.Labels[api.EnforceLevelLabel]
		}
		if diff := cmp.Diff(map[string]string{"phasegpu-system": "restricted", "phasegpu-node": "privileged"},
			level); diff != "" {
			t.Errorf("levels of the namespaces (-want +got):\n%s", diff)
		}
		for _, w := range workloads(t, objects) {
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &w.Template.ObjectMeta,
				&w.Template.Spec))
			var want []string
			if w.Name == "phasegpu-device-plugin" {
				want = []string{"restricted volume types", "runAsNonRoot != true", "runAsUser=0"}
			} else if level[w.Namespace] != "restricted" {
				t.Errorf("%s is in namespace %s, whose level is %q", w.Name, w.Namespace, level[w.Namespace])
			}
			if diff := cmp.Diff(want, result.ForbiddenReasons); diff != "" {
				t.Errorf("%s %s: what restricted forbids (-want +got):\n%s\n%s", w.Kind, w.Name, diff,
					result.ForbiddenDetail())
			}
		}
	})
}

// What Pod Security does not check.
func TestContainers(t *testing.T) {
	each(t, func(t *testing.T, objects []*unstructured.Unstructured) {
		accounts := map[string]bool{}
		for _, a := range typed[corev1.ServiceAccount](t, objects, "ServiceAccount") {
			accounts[a.Namespace+"/"+a.Name] = true
			if a.AutomountServiceAccountToken == nil || *a.AutomountServiceAccountToken {
				t.Errorf("ServiceAccount %s gives its token to pods that do not ask for it", a.Name)
			}
		}
		for _, w := range workloads(t, objects) {
			pod := w.Template.Spec
			if !accounts[w.Namespace+"/"+pod.ServiceAccountName] {
				t.Errorf("%s runs as %s/%s, which is not among the objects", w.Name, w.Namespace,
					pod.ServiceAccountName)
			}
			if pod.AutomountServiceAccountToken == nil {
				t.Errorf("%s does not say whether it has a token", w.Name)
			}
			if pod.HostNetwork || pod.HostPID || pod.HostIPC {
				t.Errorf("%s is on the host's network or sees its processes", w.Name)
			}
			if s := pod.SecurityContext; s == nil || s.SeccompProfile == nil ||
				s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("%s: no seccomp profile", w.Name)
			}
			if pod.PriorityClassName == "" {
				t.Errorf("%s: no priority: pods with devices wait for it", w.Name)
			}
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				container(t, w, c)
			}
		}
	})
}

func container(t *testing.T, w Workload, c corev1.Container) {
	t.Helper()
	name := w.Name + "/" + c.Name
	for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q := c.Resources.Requests[r]; q.IsZero() {
			t.Errorf("%s requests no %s", name, r)
		}
	}
	s := c.SecurityContext
	switch {
	case s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem:
		t.Errorf("%s can write its root file system", name)
	case s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Privileged != nil && *s.Privileged:
		t.Errorf("%s can get privileges", name)
	case s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		len(s.Capabilities.Add) > 0:
		t.Errorf("%s has capabilities", name)
	}
	if w.Name != certificates && (c.LivenessProbe == nil || c.ReadinessProbe == nil) {
		t.Errorf("%s has no probes", name)
	}
	if len(c.Ports) > 0 && slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }) {
		t.Errorf("%s has a port of the host", name)
	}
	if c.ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("%s: image pull policy %q", name, c.ImagePullPolicy)
	}
}

// certificates is the Deployment without a server: no pod depends on it, and it exits when it fails.
const certificates = "phasegpu-certificates"

// What a pod mounts, its node can read: the device plugins mount no Secret, and there is none in their namespace.
func TestNodesHaveNoKeys(t *testing.T) {
	each(t, func(t *testing.T, objects []*unstructured.Unstructured) {
		for _, o := range objects {
			if kind := o.GetKind(); o.GetNamespace() == node && (kind == "Secret" || kind == "Certificate") {
				t.Errorf("%s %s is in namespace %s", kind, o.GetName(), node)
			}
		}
		for _, w := range workloads(t, objects) {
			for _, v := range w.Template.Spec.Volumes {
				secret := v.Secret != nil || v.Projected != nil &&
					slices.ContainsFunc(v.Projected.Sources,
						func(s corev1.VolumeProjection) bool { return s.Secret != nil })
				if secret && w.Namespace == node {
					t.Errorf("%s mounts a Secret: volume %s", w.Name, v.Name)
				}
			}
		}
	})
}

// Two of everything that a pod with devices waits for, on different nodes, of which one at a time may be evicted.
func TestTwoOfEach(t *testing.T) {
	each(t, func(t *testing.T, objects []*unstructured.Unstructured) {
		budgets := typed[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget")
		var names []string
		for _, d := range typed[appsv1.Deployment](t, objects, "Deployment") {
			if d.Name == certificates {
				continue
			}
			names = append(names, d.Name)
			if *d.Spec.Replicas != 2 {
				t.Errorf("%s: %d replicas", d.Name, *d.Spec.Replicas)
			}
			template := labels.Set(d.Spec.Template.Labels)
			held := 0
			for _, b := range budgets {
				if b.Namespace == d.Namespace && selects(t, b.Spec.Selector, template) {
					held++
					if b.Spec.MinAvailable.IntValue() != 1 {
						t.Errorf("%s: %v of 2 stay", b.Name, b.Spec.MinAvailable)
					}
				}
			}
			if held != 1 {
				t.Errorf("%s: %d disruption budgets", d.Name, held)
			}
			spread := d.Spec.Template.Spec.TopologySpreadConstraints
			if len(spread) != 1 || spread[0].TopologyKey != corev1.LabelHostname ||
				!selects(t, spread[0].LabelSelector, template) {
				t.Errorf("%s: spread %+v", d.Name, spread)
			}
			if u := d.Spec.Strategy.RollingUpdate; u == nil || u.MaxUnavailable.IntValue() != 0 {
				t.Errorf("%s: an update takes one away before another is ready", d.Name)
			}
		}
		slices.Sort(names)
		if diff := cmp.Diff([]string{"phasegpu-numarefit", "phasegpu-scheduler", "phasegpu-webhook"},
			names); diff != "" {
			t.Errorf("Deployments (-want +got):\n%s", diff)
		}
		for _, m := range typed[corev1.ConfigMap](t, objects, "ConfigMap") {
			if config := m.Data["scheduler-config.yaml"]; config != "" &&
				!strings.Contains(config, "leaderElect: true") {
				t.Error("the schedulers elect no leader")
			}
		}
	})
}

func selects(t *testing.T, selector *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	must(t, err)
	return s.Matches(set)
}

// Whatever is applied has a label by which it is found, and can be deleted at once.
func TestObjects(t *testing.T) {
	each(t, func(t *testing.T, objects []*unstructured.Unstructured) {
		seen := map[string]bool{}
		for _, o := range objects {
			name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
			if o.GetLabels()["app.kubernetes.io/part-of"] != "phasegpu" && o.GetName() != "phasegpu-inventory" {
				t.Errorf("%s: labels %v", name, o.GetLabels())
			}
			if len(o.GetFinalizers()) > 0 || len(o.GetOwnerReferences()) > 0 {
				t.Errorf("%s has finalizers or owners", name)
			}
			if o.GetKind() == "ValidatingWebhookConfiguration" {
				t.Errorf("%s: one webhook is enough", name)
			}
		}
		t.Logf("%d objects: %v", len(seen), slices.Sorted(maps.Keys(seen)))
	})
}
