package kube_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/kube"
)

func TestClasses(t *testing.T) {
	never, always := corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyAlways
	spec := &corev1.PodSpec{
		InitContainers: containers{{Name: "i0"}, sidecar("s"), {Name: "i1", RestartPolicy: &never}},
		Containers:     containers{{Name: "a0"}, {Name: "a1", RestartPolicy: &always}},
	}
	want := phase.Pod{phase.Init, phase.Sidecar, phase.Init, phase.App, phase.App}
	if diff := cmp.Diff(want, kube.Classes(spec)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for position, name := range []string{"i0", "s", "i1", "a0", "a1"} {
		if c := kube.Container(spec, position); c == nil || c.Name != name {
			t.Errorf("position %d is %v, want %s", position, c, name)
		}
	}
	for _, position := range []int{-1, 5} {
		if c := kube.Container(spec, position); c != nil {
			t.Errorf("position %d is %s, want none", position, c.Name)
		}
	}
}

// TestPositions: containers without a device keep their position in requests, record and status.
func TestPositions(t *testing.T) {
	five := bound("five", containers{container("init")},
		containers{container("a1", "nvidia.com/gpumem", "16000"), container("a2", "nvidia.com/gpumem", "16000")})
	requests, err := kube.Requests(&five.Spec)
	if err != nil {
		t.Fatal(err)
	}
	charges, _, err := kube.Charges(kube.Classes(&five.Spec), requests)
	if err != nil || charges["NVIDIA"].MemoryMiB != 32000 {
		t.Errorf("charged %v, %v; want 32000 MiB", charges, err)
	}

	record := ";G,NVIDIA,1000,0:;G,NVIDIA,2000,0:;G,NVIDIA,3000,0:;"
	pod := bound("p", containers{container("i0"), container("i1", "nvidia.com/gpumem", "1000")},
		containers{container("a0", "nvidia.com/gpumem", "2000"), container("a1", "nvidia.com/gpumem", "3000")}, nvidiaRecord, record)
	allocation, err := kube.Allocation(pod)
	if err != nil {
		t.Fatal(err)
	}
	requests, err = kube.Requests(&pod.Spec)
	if err != nil {
		t.Fatal(err)
	}
	for position, memory := range []int64{0, 1000, 2000, 3000} {
		var recorded int64
		if shares := allocation[position]; len(shares) == 1 {
			recorded = shares[0].Amount.MemoryMiB
		}
		if recorded != memory || requests[position].MemoryMiB != memory {
			t.Errorf("container %d: recorded %d, asks for %d, want %d", position, recorded, requests[position].MemoryMiB, memory)
		}
	}
	if diff := cmp.Diff(map[string]string{nvidiaRecord: record}, kube.AllocationAnnotations(allocation)); diff != "" {
		t.Errorf("written back (-want +got):\n%s", diff)
	}
}

func TestRequestsNameTheContainer(t *testing.T) {
	pod := bound("p", containers{sidecar("ok", "nvidia.com/gpu", "1")}, containers{container("app", "nvidia.com/gpumem", "16Gi")})
	_, err := kube.Requests(&pod.Spec)
	if want := "container app: nvidia.com/gpumem: 16Gi means 17179869184 bytes: write 16384 (MiB)"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestAllocationOfTwoFamilies(t *testing.T) {
	share := func(uuid, family string) []device.Share {
		return []device.Share{{UUID: uuid, Family: family, Amount: device.Amount{Slots: 1, MemoryMiB: 10, Cores: 5}}}
	}
	want := device.Allocation{share("G", "NVIDIA"), nil, share("A", "AMD")}
	apps := containers{container("a0"), container("a1"), container("a2")}
	annotations := map[string]string{nvidiaRecord: "G,NVIDIA,10,5:;;;", amdRecord: ";;A,AMD,10,5:;"}
	if diff := cmp.Diff(annotations, kube.AllocationAnnotations(want)); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	got, err := kube.Allocation(bound("p", nil, apps, nvidiaRecord, annotations[nvidiaRecord], amdRecord, annotations[amdRecord]))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUnreadable: a bound, live pod with a bad record is not zero, and says why. One that has
// ended or is not bound charges nothing whatever its record says.
func TestUnreadable(t *testing.T) {
	apps := containers{container("a0", "nvidia.com/gpu", "1"), container("a1", "amd.com/gpu", "1")}
	for _, test := range []struct {
		name        string
		annotations []string
		want        []string // parts of the reason
	}{
		{"no number", []string{nvidiaRecord, "G0,abc,;;"}, []string{"annotation " + nvidiaRecord, "container 0"}},
		{"too few entries", []string{amdRecord, "A,AMD,1,0:;"}, []string{"annotation " + amdRecord, "1 containers", "has 2"}},
		{"empty", []string{nvidiaRecord, ""}, []string{"annotation " + nvidiaRecord}},
		{"another family's word", []string{amdRecord, "A,NVIDIA,1,0:;;"}, []string{"annotation " + amdRecord, "NVIDIA", "AMD"}},
		{"one container, two families", []string{nvidiaRecord, "G,NVIDIA,1,0:;;", amdRecord, "A,AMD,1,0:;;"}, []string{"annotation " + nvidiaRecord, "container a0", "AMD", "NVIDIA"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := bound("p", nil, apps, test.annotations...)
			truth := kube.LedgerPod(pod, phase.PerInit)
			for _, part := range test.want {
				if !strings.Contains(truth.Unreadable, part) {
					t.Errorf("unreadable because %q, want %q named", truth.Unreadable, part)
				}
			}
			if truth.Allocation != nil || truth.First != 0 {
				t.Errorf("got %+v, want no allocation and all phases", truth)
			}
			ended := pod.DeepCopy()
			ended.Status.Phase = corev1.PodFailed
			pending := pod.DeepCopy()
			pending.Spec.NodeName = ""
			for _, p := range []*corev1.Pod{ended, pending} {
				if truth := kube.LedgerPod(p, phase.PerInit); truth.Unreadable != "" {
					t.Errorf("phase %q on node %q: unreadable because %s", p.Status.Phase, p.Spec.NodeName, truth.Unreadable)
				}
			}
		})
	}
}

func TestLedgerPod(t *testing.T) {
	pod := bound("p", containers{container("i", "nvidia.com/gpumem", "20")}, containers{container("a", "nvidia.com/gpumem", "5")},
		nvidiaRecord, "G,NVIDIA,20,0:;G,NVIDIA,5,0:;")
	pod.ResourceVersion = "18446744073709551615"
	pod.Status.InitContainerStatuses = statuses{terminated("i", 0, 1, 2)}
	pod.Spec.PriorityClassName = "high"
	truth := kube.LedgerPod(pod, phase.PerInit)
	if truth.UID != "uid-p" || truth.Namespace != "team" || truth.Name != "p" || truth.Node != "node-1" ||
		truth.Version != 1<<64-1 || truth.First != 1 || truth.Scope.PriorityClass != "high" || len(truth.Allocation) != 2 {
		t.Errorf("got %+v", truth)
	}
	for annotation, want := range map[string]int{"hold": 0, " all-inits\n": 1, "per-init": 1, "sometimes": 0, "": 0} {
		pod.Annotations[wire.ReleaseAnnotation] = annotation
		if got := kube.LedgerPod(pod, phase.PerInit).First; got != want {
			t.Errorf("release %q: first phase %d, want %d", annotation, got, want)
		}
	}
	pod.ResourceVersion = "a file has none"
	if v := kube.LedgerPod(pod, phase.PerInit).Version; v != 0 {
		t.Errorf("version %d, want 0", v)
	}
}

func TestPlacementPod(t *testing.T) {
	apps := containers{container("a", "nvidia.com/gpu", "1")}
	pod := bound("p", nil, apps,
		wire.UseUUIDAnnotation, " G1 , G2,", wire.NoUseUUIDAnnotation, "G3", wire.UseTypeAnnotation, "A100", wire.NoUseTypeAnnotation, "P40, T4",
		wire.NUMABindAnnotation, " true ", wire.NodePolicyAnnotation, "spread", wire.DevicePolicyAnnotation, " binpack", wire.NUMAAlignment, "strict")
	got, err := kube.PlacementPod(pod, placement.Binpack, placement.Spread)
	if err != nil {
		t.Fatal(err)
	}
	want := &placement.Pod{
		Classes:  phase.Pod{phase.App},
		Requests: []device.Request{{Family: "NVIDIA", Devices: 1}},
		Selector: placement.Selector{Family: "NVIDIA", UseUUIDs: []string{"G1", "G2"}, AvoidUUIDs: []string{"G3"}, UseModels: []string{"A100"}, AvoidModels: []string{"P40", "T4"}},
		NUMABind: true, StrictFamily: "NVIDIA", NodePolicy: placement.Spread, DevicePolicy: placement.Binpack,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a, err := kube.Alignment(pod); err != nil || a != wire.Strict {
		t.Errorf("alignment %v, %v; want strict", a, err)
	}
	for _, pod := range []*corev1.Pod{bound("p", nil, apps), bound("p", nil, apps, wire.NUMAAlignment, "best-effort")} {
		plain, err := kube.PlacementPod(pod, placement.Spread, placement.Binpack)
		if err != nil || plain.NodePolicy != placement.Spread || plain.DevicePolicy != placement.Binpack || plain.NUMABind || plain.StrictFamily != "" {
			t.Errorf("annotations %v: %+v, %v; want the given policies and no restriction", pod.Annotations, plain, err)
		}
	}
}

// TestUnknownValues: an annotation with an unknown value is refused, naming it and the accepted ones.
func TestUnknownValues(t *testing.T) {
	for _, test := range []struct{ key, value, want string }{
		{wire.NodePolicyAnnotation, "random", "use binpack or spread"},
		{wire.DevicePolicyAnnotation, "", "use binpack or spread"},
		{wire.NUMABindAnnotation, "yes", "use true or false"},
		{wire.NUMAAlignment, "exact", "use best-effort or strict"},
		{wire.ReleaseAnnotation, "never", "use per-init, all-inits or hold"},
		{wire.NoUseUUIDAnnotation, strings.Repeat("g,", 1025), "1025 values are more than 1024"},
		{wire.UseTypeAnnotation, strings.Repeat("g,", 1025), "1025 values are more than 1024"},
	} {
		pod := bound("p", nil, containers{container("a", "nvidia.com/gpu", "1")}, test.key, test.value)
		_, err := kube.PlacementPod(pod, placement.Binpack, placement.Binpack)
		if test.key == wire.ReleaseAnnotation {
			var release phase.Release
			if release, err = kube.Release(pod, phase.PerInit); release != phase.Hold {
				t.Errorf("an unknown release policy is %v, want hold", release)
			}
		}
		if err == nil || !strings.HasPrefix(err.Error(), "annotation "+test.key+": ") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%q: error %v, want the annotation and %q", test.key, test.value, err, test.want)
		}
	}
}

func TestNothingAskedNothingAllocated(t *testing.T) {
	pod := bound("p", containers{container("i", "cpu", "1")}, containers{container("a", "memory", "1Gi")}, "example.com/note", "x")
	if n := testing.AllocsPerRun(100, func() {
		if kube.Tracked(pod) || kube.Asks(&pod.Spec) {
			t.Fatal("a pod without devices is tracked")
		}
	}); n != 0 {
		t.Errorf("a pod without devices costs %v allocations, want 0", n)
	}
}
