package refit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/gen/refit"
)

// situation is a pod on a node with others, and a container that is to hold allowed devices only.
type situation struct {
	name     string
	pod      *corev1.Pod
	node     *corev1.Node // two() when nil
	others   []*corev1.Pod
	position int
	allowed  string // with commas
	want     string // the record afterwards, "" when it stays
	refused  refit.Reason
}

func (s *situation) decide(t *testing.T) {
	t.Helper()
	n := s.node
	if n == nil {
		n = two()
	}
	pods := []corev1.Pod{*s.pod}
	for _, other := range s.others {
		pods = append(pods, *other)
	}
	before := s.pod.DeepCopy()
	d, refusal := refit.Decide(s.pod, n, pods, ask(s.pod, s.position, strings.Split(s.allowed, ",")...), refit.Defaults{})
	if diff := cmp.Diff(before, s.pod); diff != "" {
		t.Errorf("the pod was changed: %s", diff)
	}
	var reason refit.Reason
	if refusal != nil {
		reason = refusal.Reason
		t.Log(refusal.Message)
	}
	if reason != s.refused {
		t.Fatalf("refused with %q, want %q", reason, s.refused)
	}
	if d.Value != s.want || d.Changed != (s.want != "") {
		t.Errorf("changed %v to\n%q, want\n%q", d.Changed, d.Value, s.want)
	}
}

func play(t *testing.T, situations []situation) {
	t.Helper()
	for i := range situations {
		s := &situations[i]
		t.Run(s.name, func(t *testing.T) { s.decide(t) })
	}
}

// other is a running pod that holds memory on a device.
func other(name, uuid string, memory int) *corev1.Pod {
	return started(pod(name, container{'a', gpu(1, memory), held(uuid, memory)}))
}

// initThenApp is case 44's pod: 30 on GPU-a, then 20 on GPU-b.
func initThenApp(class rune) *corev1.Pod {
	return pod("p", container{class, gpu(1, 30), held("GPU-a", 30)}, container{'a', gpu(1, 20), held("GPU-b", 20)})
}

// Case 44 and the 1 to 3: what counts on the new device is the pod's peak there, not a sum.
func TestPeakNotSum(t *testing.T) {
	const moved = "GPU-b,NVIDIA,30720,0:;GPU-b,NVIDIA,20480,0:;"
	play(t, []situation{
		{name: "init joins its app", pod: initThenApp('i'), allowed: "GPU-b", want: moved},
		{name: "sidecar does not fit beside its app", pod: initThenApp('s'), allowed: "GPU-b", refused: refit.NoMemory},
		{name: "another pod's 15 is too much", pod: initThenApp('i'), others: []*corev1.Pod{other("q", "GPU-b", 15)}, allowed: "GPU-b", refused: refit.NoMemory},
		{name: "another pod's 10 is not", pod: initThenApp('i'), others: []*corev1.Pod{other("q", "GPU-b", 10)}, allowed: "GPU-b", want: moved},
		{name: "allowed already", pod: initThenApp('i'), allowed: "GPU-b,GPU-a"},
	})
}
