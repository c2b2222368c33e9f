package admission

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
)

// What is patched, as the operations that the API server gets: nothing more than is needed.
func TestMutation(t *testing.T) {
	scheduler := operation{"add", "/spec/schedulerName", "phasegpu-scheduler"}
	remove := func(key string) operation { return operation{Op: "remove", Path: "/metadata/annotations/" + key} }
	for name, test := range map[string]struct {
		pod  string
		want []operation
	}{
		"no devices: untouched": {`
metadata: {name: p, annotations: {phasegpu.io/release: nonsense}}
spec: {nodeName: n1, schedulerName: other, containers: [{name: a, resources: {limits: {cpu: 1}}}]}`, nil},
		"count given: only the scheduler": {`
metadata: {name: p}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 2, nvidia.com/gpumem: 4000}}}]}`,
			[]operation{scheduler}},
		"ours by name: nothing": {`
metadata: {name: p}
spec: {schedulerName: phasegpu-scheduler, containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}`, nil},
		"memory only: one device": {`
metadata: {name: p}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 4000}}}]}`,
			[]operation{
				scheduler,
				{"add", "/spec/containers/0/resources/limits/nvidia.com~1gpu", "1"},
				{"add", "/spec/containers/0/resources/requests/nvidia.com~1gpu", "1"},
			}},
		"percentage only, in the second of two": {`
metadata: {name: p}
spec: {containers: [{name: a}, {name: b, resources: {limits: {nvidia.com/gpumem-percentage: 50}}}]}`,
			[]operation{
				scheduler,
				{"add", "/spec/containers/1/resources/limits/nvidia.com~1gpu", "1"},
				{"add", "/spec/containers/1/resources/requests/nvidia.com~1gpu", "1"},
			}},
		"cores only, in an init container only": {`
metadata: {name: p}
spec:
  initContainers: [{name: i, resources: {limits: {nvidia.com/gpucores: 30}}}]
  containers: [{name: a}]`,
			[]operation{
				scheduler,
				{"add", "/spec/initContainers/0/resources/limits/nvidia.com~1gpu", "1"},
				{"add", "/spec/initContainers/0/resources/requests/nvidia.com~1gpu", "1"},
			}},
		"two families in two containers, a sidecar among them": {`
metadata: {name: p}
spec:
  initContainers: [{name: s, restartPolicy: Always, resources: {limits: {cambricon.com/mlu.smlu.vmemory: 4}}}]
  containers: [{name: a, resources: {limits: {iluvatar.ai/MR-V100.vMem: 8}}}]`,
			[]operation{
				scheduler,
				{"add", "/spec/initContainers/0/resources/limits/cambricon.com~1vmlu", "1"},
				{"add", "/spec/initContainers/0/resources/requests/cambricon.com~1vmlu", "1"},
				{"add", "/spec/containers/0/resources/limits/iluvatar.ai~1MR-V100-vgpu", "1"},
				{"add", "/spec/containers/0/resources/requests/iluvatar.ai~1MR-V100-vgpu", "1"},
			}},
		"records on a pod with devices": {`
metadata:
  name: p
  annotations: {hami.io/vgpu-devices-allocated: "G,NVIDIA,1,0:;", hami.io/amd-devices-allocated: "", keep: me, phasegpu.io/nudge: x}
spec: {schedulerName: phasegpu-scheduler, containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}`,
			[]operation{remove("hami.io~1amd-devices-allocated"), remove("hami.io~1vgpu-devices-allocated")}},
		"records on a pod without": {`
metadata: {name: p, annotations: {hami.io/vgpu-node: n1, hami.io/vgpu-time: "0"}}
spec: {containers: [{name: a}]}`,
			[]operation{remove("hami.io~1vgpu-node"), remove("hami.io~1vgpu-time")}},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := newHandler(t)
			review := reviewOf(t, podFrom(t, test.pod))
			r := ask(t, h, review)
			if !r.Allowed {
				t.Fatalf("refused: %s", r.Result.Message)
			}
			var got []operation
			if len(r.Patch) > 0 {
				if err := json.Unmarshal(r.Patch, &got); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}

			// Asked again about the result, as reinvocationPolicy IfNeeded does, there is nothing to do.
			again := reviewOf(t, patchedPod(t, review, r))
			if r := ask(t, h, again); !r.Allowed || len(r.Patch) > 0 {
				t.Errorf("asked again: allowed %v, patch %s", r.Allowed, r.Patch)
			}
		})
	}
}

func TestPatchedPod(t *testing.T) {
	h, _ := newHandler(t)
	review := reviewOf(t, podFrom(t, `
metadata: {name: p, annotations: {hami.io/vgpu-node: n1, keep: me}}
spec:
  initContainers: [{name: i, resources: {limits: {nvidia.com/gpumem: 8000}}}]
  containers: [{name: a, resources: {limits: {nvidia.com/gpucores: 30, cpu: 1}}}]`))
	want := podFrom(t, `
metadata: {name: p, annotations: {keep: me}}
spec:
  schedulerName: phasegpu-scheduler
  initContainers:
  - name: i
    resources:
      limits: {nvidia.com/gpumem: 8000, nvidia.com/gpu: 1}
      requests: {nvidia.com/gpumem: 8000, nvidia.com/gpu: 1}
  containers:
  - name: a
    resources:
      limits: {nvidia.com/gpucores: 30, cpu: 1, nvidia.com/gpu: 1}
      requests: {nvidia.com/gpucores: 30, cpu: 1, nvidia.com/gpu: 1}`)
	if diff := cmp.Diff(want, patchedPod(t, review, ask(t, h, review))); diff != "" {
		t.Errorf("patched pod (-want +got):\n%s", diff)
	}
}

// An API server that has not set requests yet gets a patch that is whole by itself.
func TestAbsentMaps(t *testing.T) {
	h, _ := newHandler(t)
	review := reviewOf(t, podFrom(t, `
metadata: {name: p}
spec: {schedulerName: phasegpu-scheduler, containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 8000}}}]}`))
	review.Request.Object.Raw = []byte(`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","resources":{"limits":{"nvidia.com/gpumem":"8000"}}}]}}`)
	want := podFrom(t, `
metadata: {name: p}
spec:
  schedulerName: phasegpu-scheduler
  containers:
  - name: a
    resources: {limits: {nvidia.com/gpumem: 8000, nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 1}}`)
	got := patchedPod(t, review, ask(t, h, review))
	want.TypeMeta = got.TypeMeta
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patched pod (-want +got):\n%s", diff)
	}
}

func TestPointerEscapes(t *testing.T) {
	if got, want := pointer("a/b", "c~d", "~1", ""), "/a~1b/c~0d/~01/"; got != want {
		t.Errorf("pointer %q, want %q", got, want)
	}
}

// Kubelet shows static pods as mirror pods: they pass, and what they say of devices does not count.
// Anybody else who sets that annotation is treated as the author of any other pod.
func TestMirrorPods(t *testing.T) {
	pod := `
metadata: {name: p, annotations: {kubernetes.io/config.mirror: h, hami.io/vgpu-devices-allocated: "G,NVIDIA,1,0:;"}}
spec:
  nodeName: n1
  containers: [{name: a, securityContext: {privileged: true}, resources: {limits: {nvidia.com/gpumem: 4000}}}]`
	h, _ := newHandler(t)
	review := reviewOf(t, podFrom(t, pod))
	if r := ask(t, h, review); r.Allowed {
		t.Error("a user's mirror pod passed")
	}
	review.Request.UserInfo.Username = "system:node:n1"
	review.Request.UserInfo.Groups = []string{"system:nodes", "system:authenticated"}
	r := ask(t, h, review)
	want := `[{"op":"remove","path":"/metadata/annotations/hami.io~1vgpu-devices-allocated"}]`
	if !r.Allowed || string(r.Patch) != want {
		t.Errorf("a kubelet's mirror pod: allowed %v, patch %s, want %s", r.Allowed, r.Patch, want)
	}
}

// A dry run is answered like any other request, and neither books anything: the same quota
// has room as often as it is asked.
func TestDryRunIsAnsweredAlike(t *testing.T) {
	h, _ := newHandler(t, newQuota("gpu", "limits.nvidia.com/gpumem", "10000"))
	review := reviewOf(t, podFrom(t, `
metadata: {name: p}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 6000}}}]}`))
	var answers []*admissionv1.AdmissionResponse
	for _, dryRun := range []bool{true, false, true} {
		review.Request.DryRun = &dryRun
		answers = append(answers, ask(t, h, review))
	}
	if diff := cmp.Diff([]*admissionv1.AdmissionResponse{answers[0], answers[0]}, answers[1:]); diff != "" || !answers[0].Allowed {
		t.Errorf("answers differ (-first +later), or are refusals:\n%s", diff)
	}
}

// A slip in a name is told to who made it, whether or not the pod is admitted; many of them are cut short.
func TestWarnings(t *testing.T) {
	for name, test := range map[string]struct {
		pod     string
		allowed bool
		want    int
	}{
		"none": {`
metadata: {name: p, annotations: {phasegpu.io/release: hold}}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}`, true, 0},
		"an annotation of a pod with devices": {`
metadata: {name: p, annotations: {phasegpu.io/relase: hold}}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}`, true, 1},
		"the only resource, and so a pod without": {`
metadata: {name: p}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpumen: 1}}}]}`, true, 1},
		"a pod that is refused": {`
metadata: {name: p, annotations: {phasegpu.io/relase: hold}}
spec: {nodeName: n1, containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}`, false, 1},
		"many": {`
metadata: {name: p, annotations: {phasegpu.io/rel1: "", phasegpu.io/rel2: "", phasegpu.io/rel3: "", phasegpu.io/rel4: "", phasegpu.io/rel5: "", phasegpu.io/rel6: "", phasegpu.io/rel7: "", phasegpu.io/rel8: "", phasegpu.io/rel9: ""}}
spec: {containers: [{name: a}]}`, true, maxWarnings},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := newHandler(t)
			r := ask(t, h, reviewOf(t, podFrom(t, test.pod)))
			if r.Allowed != test.allowed || len(r.Warnings) != test.want {
				t.Errorf("allowed %v, warnings %q, want %v and %d", r.Allowed, r.Warnings, test.allowed, test.want)
			}
		})
	}
}
