package kube_test

import (
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// TestTransformLosesNothing: what this package says of a random pod, it says of the reduced one; and a
// second Transform changes nothing.
func TestTransformLosesNothing(t *testing.T) {
	seed := rand.Int63()
	rng := rand.New(rand.NewSource(seed))
	all := classify.Families()
	tracked := 0
	for range 1500 {
		pod := randomPod(rng, randomSpec(rng, &all[rng.Intn(len(all))]))
		before := pod.DeepCopy()
		object, err := kube.Transform(pod)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, pod); diff != "" {
			t.Fatalf("seed %d: Transform changed what it was given:\n%s", seed, diff)
		}
		if again, err := kube.Transform(object); err != nil || cmp.Diff(object, again) != "" {
			t.Fatalf("seed %d: a second Transform changes the result (%v):\n%s", seed, err, cmp.Diff(object, again))
		}
		if !kube.Tracked(pod) {
			want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}}
			if diff := cmp.Diff(want, object); diff != "" {
				t.Fatalf("seed %d: a pod without devices (-want +got):\n%s", seed, diff)
			}
			continue
		}
		tracked++
		reduced := object.(*corev1.Pod)
		if diff := cmp.Diff(facts(pod), facts(reduced)); diff != "" {
			t.Fatalf("seed %d: (-whole +reduced):\n%s", seed, diff)
		}
		if reduced.ManagedFields != nil || reduced.Labels != nil || reduced.Annotations["example.com/note"] != "" || reduced.Spec.Containers[0].Image != "" {
			t.Fatalf("seed %d: kept more than needed: %+v", seed, reduced)
		}
	}
	if tracked < 300 {
		t.Errorf("only %d pods with devices: the test has lost its reach", tracked)
	}
}

// facts is all that this package and the gate say of a pod.
func facts(pod *corev1.Pod) map[string]any {
	requests, err := kube.Requests(&pod.Spec)
	placed, placeErr := kube.PlacementPod(pod, placement.Binpack, placement.Spread)
	alignment, alignErr := kube.Alignment(pod)
	_, releaseErr := kube.Release(pod, phase.PerInit)
	return map[string]any{
		"ledger":   kube.LedgerPod(pod, phase.AllInits),
		"requests": requests, "error": text(err),
		"placement": placed, "placement error": text(placeErr),
		"alignment": alignment, "alignment error": text(alignErr), "release error": text(releaseErr),
		"scope":    kube.Scope(pod),
		"start":    pod.Status.StartTime,
		"deletion": pod.DeletionTimestamp,
		"names":    []string{pod.Name, pod.Namespace, string(pod.UID), pod.Spec.NodeName, pod.Spec.SchedulerName},
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// randomPod dresses a spec in all that a real pod has besides, and in statuses and annotations, some bad.
func randomPod(rng *rand.Rand, spec *corev1.PodSpec) *corev1.Pod {
	one := func(values ...string) string { return values[rng.Intn(len(values))] }
	some := func() bool { return rng.Intn(2) == 0 }
	if rng.Intn(4) == 0 { // without devices
		for i := range spec.InitContainers {
			spec.InitContainers[i].Resources = corev1.ResourceRequirements{Limits: list("cpu", "1")}
		}
		for i := range spec.Containers {
			spec.Containers[i].Resources = corev1.ResourceRequirements{}
		}
	}
	pod := bound("p", spec.InitContainers, spec.Containers, "example.com/note", "long")
	pod.Labels = map[string]string{"app": "x"}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	pod.ResourceVersion = one("7", "8")
	pod.Spec.NodeName = one("node-1", "node-1", "")
	pod.Spec.SchedulerName = "phasegpu-scheduler"
	pod.Spec.PriorityClassName = one("", "high")
	pod.Status.QOSClass = corev1.PodQOSClass(one("", "BestEffort", "Burstable", "Guaranteed"))
	pod.Status.Phase = corev1.PodPhase(one("", "Pending", "Running", "Running", "Succeeded"))
	if some() {
		now := at(3)
		pod.Status.StartTime, pod.DeletionTimestamp = &now, &now
		deadline := int64(rng.Intn(2) - 1)
		pod.Spec.ActiveDeadlineSeconds = &deadline
		term := corev1.PodAffinityTerm{TopologyKey: "zone"}
		if some() {
			term.Namespaces = []string{"other"}
		}
		pod.Spec.Affinity = near(term)
	}
	for _, c := range []string{"PodReadyToStartContainers", "AllContainersRestarting", "Ready", "Initialized"} {
		if some() {
			pod.Status.Conditions = append(pod.Status.Conditions, condition(c, corev1.ConditionStatus(one("True", "True", "False", "Unknown")), rng.Intn(9)))
		}
	}
	status := func(c *corev1.Container) corev1.ContainerStatus {
		c.Image = "registry.example/image"
		switch rng.Intn(4) {
		case 0:
			return running(c.Name, rng.Intn(9))
		case 1:
			return corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "x"}}}
		default:
			s := terminated(c.Name, int32(rng.Intn(2)), rng.Intn(5), 5+rng.Intn(5))
			s.State.Terminated.Message = "a long message"
			return s
		}
	}
	record := ""
	for i := range pod.Spec.InitContainers {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status(&pod.Spec.InitContainers[i]))
		record += one(";", "G,NVIDIA,5,0:;")
	}
	for i := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status(&pod.Spec.Containers[i]))
		record += one(";", "G,NVIDIA,5,0:;")
	}
	for _, a := range []struct {
		key    string
		values []string
	}{
		{nvidiaRecord, []string{record, "G0,abc"}},
		{amdRecord, []string{"", ";;"}},
		{wire.NodeAnnotation, []string{"node-1"}},
		{wire.ReleaseAnnotation, []string{"hold", "all-inits", "never"}},
		{wire.NodePolicyAnnotation, []string{"spread", "random"}},
		{wire.DevicePolicyAnnotation, []string{"spread", "binpack"}},
		{wire.NUMAAlignment, []string{"strict", "x"}},
		{wire.NUMABindAnnotation, []string{"true", "false"}},
		{wire.UseUUIDAnnotation, []string{"G1,G2"}},
		{wire.NoUseUUIDAnnotation, []string{"G3"}},
		{wire.UseTypeAnnotation, []string{"A100"}},
		{wire.NoUseTypeAnnotation, []string{"P40"}},
	} {
		if rng.Intn(5) == 0 && (pod.Spec.Containers[0].Resources.Limits != nil || some()) {
			pod.Annotations[a.key] = one(a.values...)
		}
	}
	return pod
}

func TestTransformNodesAndQuotas(t *testing.T) {
	n := node(nvidiaList, card("G"), wire.CordonAnnotation, "G", "example.com/note", "x")
	n.Labels, n.ManagedFields = map[string]string{"a": "b"}, []metav1.ManagedFieldsEntry{{}}
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
	object, err := kube.Transform(n)
	if err != nil {
		t.Fatal(err)
	}
	reduced := object.(*corev1.Node)
	if diff := cmp.Diff(kube.Node(n), kube.Node(reduced)); diff != "" {
		t.Errorf("(-whole +reduced):\n%s", diff)
	}
	if len(reduced.Annotations) != 2 || reduced.Labels != nil || reduced.Status.Images != nil || len(reduced.Status.Allocatable) != 3 {
		t.Errorf("kept more than needed: %+v", reduced)
	}
	q := quota("q", "limits.nvidia.com/gpumem", "5")
	q.ManagedFields, q.Status.Hard = []metav1.ManagedFieldsEntry{{}}, q.Spec.Hard
	object, err = kube.Transform(q)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(quota("q", "limits.nvidia.com/gpumem", "5"), object); diff != "" {
		t.Errorf("quota (-want +got):\n%s", diff)
	}
	if other, err := kube.Transform("something else"); err != nil || other != "something else" {
		t.Errorf("other objects pass as they are, got %v, %v", other, err)
	}
}
