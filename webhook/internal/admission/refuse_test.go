package admission

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newQuota(name, key, limit string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceName(key): resource.MustParse(limit)}},
	}
}

// Every refusal names the pod and the object's part, what was there, and what to do.
func TestRefusals(t *testing.T) {
	limits := func(limits string) string {
		return fmt.Sprintf(`
metadata: {name: p}
spec: {containers: [{name: a, resources: {limits: {%s}}}]}`, limits)
	}
	annotated := func(key, value string) string {
		return fmt.Sprintf(`
metadata: {name: p, annotations: {%s: %q}}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}`, key, value)
	}
	for name, test := range map[string]struct {
		pod  string
		code int32
		want []string // in the message
	}{
		"node chosen": {`
metadata: {name: p}
spec: {nodeName: n1, containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}`,
			403, []string{"pod team/p", "spec.nodeName", `"n1"`, "leave it out"}},
		"another scheduler": {`
metadata: {name: p}
spec: {schedulerName: volcano, containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}`,
			403, []string{"pod team/p", "spec.schedulerName", `"volcano"`, "phasegpu-scheduler"}},
		"privileged init container with devices": {`
metadata: {name: p}
spec:
  initContainers: [{name: i, securityContext: {privileged: true}, resources: {limits: {nvidia.com/gpu: 1}}}]
  containers: [{name: a}]`,
			403, []string{"pod team/p", `container "i"`, "privileged"}},
		"named by its prefix": {`
metadata: {generateName: web-7d9-}
spec: {nodeName: n1, containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}`,
			403, []string{"pod team/web-7d9-*"}},

		"two families":       {limits("nvidia.com/gpu: 1, amd.com/gpumem: 1"), 422, []string{"container a", "nvidia.com/gpu", "amd.com/gpumem", "one family"}},
		"memory and percent": {limits("nvidia.com/gpumem: 1, nvidia.com/gpumem-percentage: 1"), 422, []string{"both"}},
		"Gi":                 {limits("nvidia.com/gpumem: 16Gi"), 422, []string{"container a", "nvidia.com/gpumem", "16Gi", "write 16384"}},
		"too large":          {limits(`nvidia.com/gpumem: "2147483648"`), 422, []string{"nvidia.com/gpumem", "8388608"}},
		"overflows":          {limits(`nvidia.com/gpumem: "9223372036854775808000"`), 422, []string{"nvidia.com/gpumem", "8388608"}},
		"negative":           {limits("nvidia.com/gpumem: -1"), 422, []string{"-1", "negative"}},
		"fraction":           {limits(`nvidia.com/gpumem-percentage: "99.1"`), 422, []string{"99100m", "fraction"}},
		"percent 0":          {limits("nvidia.com/gpumem-percentage: 0"), 422, []string{"at least 1"}},
		"percent 101":        {limits("nvidia.com/gpumem-percentage: 101"), 422, []string{"at most 100"}},
		"cores 101":          {limits("nvidia.com/gpucores: 101"), 422, []string{"at most 100"}},
		"count 0":            {limits("nvidia.com/gpu: 0"), 422, []string{"nvidia.com/gpu", "at least 1"}},
		"requests alone": {`
metadata: {name: p}
spec: {containers: [{name: a, resources: {requests: {nvidia.com/gpumem: 1}}}]}`,
			422, []string{"nvidia.com/gpumem", "put it in limits"}},

		"node policy":   {annotated("hami.io/node-scheduler-policy", "dense"), 422, []string{"hami.io/node-scheduler-policy", `"dense"`, "binpack", "spread"}},
		"device policy": {annotated("hami.io/gpu-scheduler-policy", ""), 422, []string{"hami.io/gpu-scheduler-policy", "binpack", "spread"}},
		"release":       {annotated("phasegpu.io/release", "never"), 422, []string{"phasegpu.io/release", `"never"`, "per-init", "all-inits", "hold"}},
		"numa bind":     {annotated("nvidia.com/numa-bind", "yes"), 422, []string{"nvidia.com/numa-bind", `"yes"`, "true", "false"}},
		"alignment":     {annotated("hami.io/numa-alignment", "loose"), 422, []string{"hami.io/numa-alignment", `"loose"`, "best-effort", "strict"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := newHandler(t)
			r := ask(t, h, reviewOf(t, podFrom(t, test.pod)))
			if r.Allowed {
				t.Fatalf("allowed, with patch %s", r.Patch)
			}
			if r.Result.Code != test.code {
				t.Errorf("code %d, want %d", r.Result.Code, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(r.Result.Message, want) {
					t.Errorf("message lacks %q: %s", want, r.Result.Message)
				}
			}
		})
	}
}

// What looks like the above and is fine.
func TestNotRefused(t *testing.T) {
	for name, pod := range map[string]string{
		"privileged container beside one with devices": `
metadata: {name: p}
spec:
  containers:
  - {name: a, resources: {limits: {nvidia.com/gpu: 1}}}
  - {name: b, securityContext: {privileged: true}}`,
		"values with blanks around them": `
metadata: {name: p, annotations: {hami.io/gpu-scheduler-policy: " spread ", phasegpu.io/release: "hold\n", hami.io/numa-alignment: " strict"}}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}`,
		"a daemon set's pod": `
metadata: {generateName: d-}
spec:
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}
  containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]`,
		"a round number, which the API server writes 8k": `
metadata: {name: p}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 8k}}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := newHandler(t)
			if r := ask(t, h, reviewOf(t, podFrom(t, pod))); !r.Allowed {
				t.Errorf("refused: %s", r.Result.Message)
			}
		})
	}
}

// An allowed scheduler keeps its pods; everything else holds for them as for others.
func TestAllowScheduler(t *testing.T) {
	h, _ := newHandler(t)
	h.Policy.AllowSchedulers = []string{"volcano", "kueue"}
	pod := `
metadata: {name: p, annotations: {hami.io/vgpu-node: n1}}
spec: {schedulerName: %s, containers: [{name: a, resources: {limits: {nvidia.com/gpumem: %s}}}]}`

	review := reviewOf(t, podFrom(t, fmt.Sprintf(pod, "kueue", "4000")))
	r := ask(t, h, review)
	if !r.Allowed {
		t.Fatalf("refused: %s", r.Result.Message)
	}
	got := patchedPod(t, review, r)
	if got.Spec.SchedulerName != "kueue" || len(got.Annotations) != 0 || got.Spec.Containers[0].Resources.Limits.Name("nvidia.com/gpu", resource.DecimalSI).Value() != 1 {
		t.Errorf("patched pod is %+v", got)
	}
	if r := ask(t, h, reviewOf(t, podFrom(t, fmt.Sprintf(pod, "kueue", "4Gi")))); r.Allowed {
		t.Error("a bad quantity passed")
	}
	r = ask(t, h, reviewOf(t, podFrom(t, fmt.Sprintf(pod, "other", "4000"))))
	if r.Allowed || !strings.Contains(r.Result.Message, "volcano, kueue") {
		t.Errorf("another scheduler: %+v", r.Result)
	}
}

func TestQuotaRefuses(t *testing.T) {
	h, _ := newHandler(t, newQuota("gpu", "limits.nvidia.com/gpumem", "24576"))
	r := ask(t, h, reviewOf(t, podFrom(t, `
metadata: {name: p}
spec:
  initContainers: [{name: load, resources: {limits: {nvidia.com/gpumem: 30720}}}]
  containers: [{name: train, resources: {limits: {nvidia.com/gpumem: 4096}}}]`)))
	if r.Allowed || r.Result.Code != 403 {
		t.Fatalf("allowed %v, %+v", r.Allowed, r.Result)
	}
	for _, want := range []string{"pod team/p", `"gpu"`, "limits.nvidia.com/gpumem", `init container "load"`, "30720 MiB", "24576 MiB"} {
		if !strings.Contains(r.Result.Message, want) {
			t.Errorf("message lacks %q: %s", want, r.Result.Message)
		}
	}
}

// Until the quotas are known, pods with devices wait; others do not.
func TestNotReady(t *testing.T) {
	h, _ := newHandler(t, newQuota("gpu", "limits.nvidia.com/gpumem", "0")) // which would refuse it
	h.Policy.Feed = synced(false)
	r := ask(t, h, reviewOf(t, podFrom(t, `
metadata: {name: p}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 1}}}]}`)))
	if r.Allowed || r.Result.Code != 503 || !strings.Contains(r.Result.Message, "not complete") {
		t.Errorf("allowed %v, %+v", r.Allowed, r.Result)
	}
	r = ask(t, h, reviewOf(t, podFrom(t, `
metadata: {name: p, annotations: {hami.io/vgpu-node: n1}}
spec: {containers: [{name: a}]}`)))
	if !r.Allowed {
		t.Errorf("a pod without devices: %+v", r.Result)
	}
}
