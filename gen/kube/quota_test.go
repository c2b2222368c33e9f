package kube_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/gen/kube"
)

func quota(name string, pairs ...string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: "u", ResourceVersion: "1"},
		Spec:       corev1.ResourceQuotaSpec{Hard: list(pairs...)},
	}
}

func TestQuota(t *testing.T) {
	got, err := kube.Quota(quota("q",
		"limits.nvidia.com/gpumem", "24576", "requests.nvidia.com/gpumem", "40k", "limits.nvidia.com/gpucores", "0",
		"limits.iluvatar.ai/MR-V100.vMem", "64", "limits.cambricon.com/mlu.smlu.vcore", "300",
		// Not ours: counts, percentages, other resources, and names without a prefix.
		"requests.nvidia.com/gpu", "4", "limits.nvidia.com/gpumem-percentage", "50", "limits.cpu", "4", "pods", "10",
		"nvidia.com/gpumem", "1", "limits.nvidia.com/gpumemx", "1", "limits.limits.nvidia.com/gpumem", "1",
	))
	if err != nil {
		t.Fatal(err)
	}
	want := ledger.Quota{Namespace: "team", Name: "q", Limits: []ledger.Limit{
		{Resource: "limits.cambricon.com/mlu.smlu.vcore", Family: "MLU", Dimension: ledger.Cores, Max: 300},
		{Resource: "limits.iluvatar.ai/MR-V100.vMem", Family: "MR-V100", Dimension: ledger.Memory, Max: 16384},
		{Resource: "limits.nvidia.com/gpucores", Family: "NVIDIA", Dimension: ledger.Cores, Max: 0},
		{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Dimension: ledger.Memory, Max: 24576},
		{Resource: "requests.nvidia.com/gpumem", Family: "NVIDIA", Dimension: ledger.Memory, Max: 40000},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBadQuota: a line that cannot be read blocks and is named; the others hold as they are.
func TestBadQuota(t *testing.T) {
	got, err := kube.Quota(quota("q", "limits.nvidia.com/gpumem", "16Gi", "limits.nvidia.com/gpucores", "0.5",
		"limits.amd.com/gpumem", "-1", "limits.hygon.com/dcumem", "100"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{
		"key limits.nvidia.com/gpumem", "write 16384 (MiB)",
		"key limits.nvidia.com/gpucores", "fraction",
		"key limits.amd.com/gpumem", "negative",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %q in it", err, part)
		}
	}
	for _, limit := range got.Limits {
		want := int64(0)
		if limit.Family == "DCU" {
			want = 100
		}
		if limit.Max != want {
			t.Errorf("%s is %d, want %d", limit.Resource, limit.Max, want)
		}
		if readable := limit.Family == "DCU"; readable != (limit.Unreadable == "") {
			t.Errorf("%s: unreadable is %q", limit.Resource, limit.Unreadable)
		}
	}
	if len(got.Limits) != 4 {
		t.Errorf("%d limits, want 4", len(got.Limits))
	}
}

// TestQuotaInTheBook: limit 0 blocks and an absent one does not; the tightest rules, and
// without it the others do.
func TestQuotaInTheBook(t *testing.T) {
	book := ledger.New()
	set := func(q *corev1.ResourceQuota) {
		t.Helper()
		truth, err := kube.Quota(q)
		if err != nil {
			t.Fatal(err)
		}
		book.SetQuota(truth)
	}
	fits := func(family string, memory, cores int64) bool {
		charges := map[string]ledger.Charge{family: {MemoryMiB: memory, Cores: cores}}
		return book.CheckQuota("team", "u", ledger.Scope{}, charges) == nil
	}
	set(quota("zero", "limits.amd.com/gpumem", "0"))
	if fits("AMD", 1, 0) || !fits("AMD", 0, 50) || !fits("NVIDIA", 1, 50) {
		t.Error("limit 0 of AMD memory must block that and nothing else")
	}
	set(quota("wide", "limits.nvidia.com/gpumem", "24576"))
	set(quota("tight", "requests.nvidia.com/gpumem", "10000"))
	if fits("NVIDIA", 10001, 0) || !fits("NVIDIA", 10000, 0) {
		t.Error("the tight quota must rule")
	}
	book.RemoveQuota("team", "tight")
	if fits("NVIDIA", 24577, 0) || !fits("NVIDIA", 24576, 0) {
		t.Error("the wide quota must rule when the tight one is gone")
	}
}

func near(term corev1.PodAffinityTerm) *corev1.Affinity {
	required := []corev1.PodAffinityTerm{term}
	return &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required},
	}
}

// TestScopes: a quota selects the pods that the API server's evaluator selects.
func TestScopes(t *testing.T) {
	deadline, past := int64(5), int64(-1)
	pods := map[string]*corev1.Pod{}
	for name, change := range map[string]func(*corev1.Pod){
		"plain":    func(*corev1.Pod) {},
		"deadline": func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &deadline },
		"past":     func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &past },
		"recorded": func(p *corev1.Pod) {
			p.Status.QOSClass = corev1.PodQOSBestEffort
			p.Spec.Containers[0] = container("a", "cpu", "1")
		},
		"burstable": func(p *corev1.Pod) { p.Spec.Containers[0] = container("a", "cpu", "1") },
		"init":      func(p *corev1.Pod) { p.Spec.InitContainers = containers{container("i", "memory", "1Gi")} },
		"zero":      func(p *corev1.Pod) { p.Spec.Containers[0] = container("a", "cpu", "0", "memory", "0") },
		"pod level": func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "1")} },
		"pod level huge": func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: list("hugepages-2Mi", "2Mi")}
			p.Spec.Containers[0] = container("a", "cpu", "1")
		},
		"high": func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" },
		"low":  func(p *corev1.Pod) { p.Spec.PriorityClassName = "low" },
		"near": func(p *corev1.Pod) {
			p.Spec.Affinity = near(corev1.PodAffinityTerm{TopologyKey: "zone"})
		},
		"across": func(p *corev1.Pod) {
			p.Spec.Affinity = near(corev1.PodAffinityTerm{Namespaces: []string{"x"}})
		},
		"across, weighted": func(p *corev1.Pod) {
			term := corev1.PodAffinityTerm{NamespaceSelector: &metav1.LabelSelector{}}
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
			p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution =
				[]corev1.WeightedPodAffinityTerm{{PodAffinityTerm: term}}
		},
	} {
		p := bound(name, nil, containers{container("a", "nvidia.com/gpu", "1")})
		p.Status.QOSClass = ""
		change(p)
		pods[name] = p
	}
	type scopes = []corev1.ResourceQuotaScope
	byClass := func(op corev1.ScopeSelectorOperator, values ...string) []corev1.ScopedResourceSelectorRequirement {
		return []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: op, Values: values},
		}
	}
	for _, test := range []struct {
		name     string
		scopes   scopes
		selector []corev1.ScopedResourceSelectorRequirement
		want     string // names, sorted; a leading ! for all but those
	}{
		{name: "none", want: "!"},
		{name: "Terminating", scopes: scopes{corev1.ResourceQuotaScopeTerminating}, want: "deadline"},
		{name: "NotTerminating", scopes: scopes{corev1.ResourceQuotaScopeNotTerminating}, want: "!deadline"},
		{name: "BestEffort", scopes: scopes{corev1.ResourceQuotaScopeBestEffort}, want: "!burstable;init;pod level"},
		{name: "NotBestEffort", scopes: scopes{corev1.ResourceQuotaScopeNotBestEffort}, want: "burstable;init;pod level"},
		{name: "CrossNamespacePodAffinity", scopes: scopes{corev1.ResourceQuotaScopeCrossNamespacePodAffinity}, want: "across;across, weighted"},
		{name: "PriorityClass", scopes: scopes{corev1.ResourceQuotaScopePriorityClass}, want: "high;low"},
		{name: "class in", selector: byClass(corev1.ScopeSelectorOpIn, "high", "higher"), want: "high"},
		{name: "class not in", selector: byClass(corev1.ScopeSelectorOpNotIn, "high"), want: "!high"},
		{name: "class exists", selector: byClass(corev1.ScopeSelectorOpExists), want: "high;low"},
		{name: "no class", selector: byClass(corev1.ScopeSelectorOpDoesNotExist), want: "!high;low"},
		{name: "both must hold", scopes: scopes{corev1.ResourceQuotaScopeTerminating},
			selector: byClass(corev1.ScopeSelectorOpExists), want: ""},
		{name: "not about pods", scopes: scopes{corev1.ResourceQuotaScopeVolumeAttributesClass}, want: ""},
		{name: "unknown operator", selector: byClass("Like", "high"), want: ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := quota("q", "limits.nvidia.com/gpumem", "1")
			q.Spec.Scopes = test.scopes
			if test.selector != nil {
				q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: test.selector}
			}
			truth, err := kube.Quota(q)
			if err != nil {
				t.Fatal(err)
			}
			named, allBut := strings.CutPrefix(test.want, "!")
			for name, pod := range pods {
				want := strings.Contains(";"+named+";", ";"+name+";") != allBut
				if got := truth.Counts(kube.Scope(pod)); got != want {
					t.Errorf("pod %q is selected: %t, want %t", name, got, want)
				}
			}
		})
	}
}

func TestCharges(t *testing.T) {
	for _, test := range []struct {
		name        string
		inits, apps []corev1.Container
		charges     map[string]ledger.Charge
		known       map[string]bool
	}{
		{
			name:    "none",
			apps:    containers{container("a", "cpu", "1")},
			charges: map[string]ledger.Charge{}, known: map[string]bool{},
		},
		{
			name:    "per device",
			apps:    containers{container("a", "nvidia.com/gpu", "2", "nvidia.com/gpumem", "2048", "nvidia.com/gpucores", "30")},
			charges: map[string]ledger.Charge{"NVIDIA": {Devices: 2, MemoryMiB: 4096, Cores: 60}}, known: map[string]bool{"NVIDIA": true},
		},
		{
			name:    "a sidecar before the large init",
			inits:   containers{sidecar("s", "nvidia.com/gpumem", "2000"), container("i", "nvidia.com/gpumem", "20000")},
			apps:    containers{container("a", "nvidia.com/gpumem", "10000")},
			charges: map[string]ledger.Charge{"NVIDIA": {Devices: 2, MemoryMiB: 22000}}, known: map[string]bool{"NVIDIA": true},
		},
		{
			name:    "a percentage is known on a card only",
			inits:   containers{container("i", "nvidia.com/gpumem", "20000")},
			apps:    containers{container("a", "nvidia.com/gpumem-percentage", "50")},
			charges: map[string]ledger.Charge{"NVIDIA": {Devices: 1, MemoryMiB: 20000}}, known: map[string]bool{"NVIDIA": false},
		},
		{
			name:    "each family on its own",
			inits:   containers{container("i", "amd.com/gpu", "1")},
			apps:    containers{container("a", "nvidia.com/gpumem", "10000"), container("b", "cambricon.com/mlu.smlu.vmemory", "4")},
			charges: map[string]ledger.Charge{"AMD": {Devices: 1}, "NVIDIA": {Devices: 1, MemoryMiB: 10000}, "MLU": {Devices: 1, MemoryMiB: 1024, Cores: 100}},
			known:   map[string]bool{"AMD": false, "NVIDIA": true, "MLU": true},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := &bound("p", test.inits, test.apps).Spec
			requests, err := kube.Requests(spec)
			if err != nil {
				t.Fatal(err)
			}
			charges, known, err := kube.Charges(kube.Classes(spec), requests)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.charges, charges); diff != "" {
				t.Errorf("charges (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.known, known); diff != "" {
				t.Errorf("known (-want +got):\n%s", diff)
			}
		})
	}
	if _, _, err := kube.Charges(nil, []device.Request{{}}); err == nil {
		t.Error("requests for a container that is not there: no error")
	}
	classes := kube.Classes(&bound("p", nil, containers{container("a"), container("b")}).Spec)
	for _, requests := range [][]device.Request{
		{{Family: "F", Devices: 2, MemoryMiB: 1 << 62}, {}},
		{{Family: "F", Devices: 1, MemoryMiB: 1 << 62}, {Family: "F", Devices: 1, MemoryMiB: 1 << 62}},
	} {
		if charges, _, err := kube.Charges(classes, requests); err == nil {
			t.Errorf("an overflow was charged as %v", charges)
		}
	}
}
