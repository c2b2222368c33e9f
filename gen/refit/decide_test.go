package refit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
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

// The 4 and 6: what stays beside what moves.
func TestContainersOfOnePod(t *testing.T) {
	play(t, []situation{
		{
			name: "sidecar after a larger init", allowed: "GPU-b", position: 1,
			pod:  pod("p", container{'i', gpu(1, 35), held("GPU-b", 35)}, container{'s', gpu(1, 30), held("GPU-a", 30)}, container{'a', gpu(1, 5), held("GPU-b", 5)}),
			want: "GPU-b,NVIDIA,35840,0:;GPU-b,NVIDIA,30720,0:;GPU-b,NVIDIA,5120,0:;", // 35 alone, then 30+5
		},
		{
			name: "sidecar before a larger init", allowed: "GPU-b", position: 0,
			pod:     pod("p", container{'s', gpu(1, 30), held("GPU-a", 30)}, container{'i', gpu(1, 35), held("GPU-b", 35)}, container{'a', gpu(1, 5), held("GPU-b", 5)}),
			refused: refit.NoMemory, // 30+35
		},
		{
			name: "init after a larger sidecar", allowed: "GPU-a", position: 1,
			pod:  pod("p", container{'s', gpu(1, 30), held("GPU-a", 30)}, container{'i', gpu(1, 10), held("GPU-b", 10)}, container{'a', gpu(1, 10), held("GPU-a", 10)}),
			want: "GPU-a,NVIDIA,30720,0:;GPU-a,NVIDIA,10240,0:;GPU-a,NVIDIA,10240,0:;", // 30+10 twice, not 50
		},
		{
			name: "init after a sidecar that leaves too little", allowed: "GPU-a", position: 1,
			pod:     pod("p", container{'s', gpu(1, 30), held("GPU-a", 30)}, container{'i', gpu(1, 11), held("GPU-b", 11)}, container{'a', gpu(1, 10), held("GPU-a", 10)}),
			refused: refit.NoMemory,
		},
		{
			name: "two apps live together", allowed: "GPU-b", position: 1,
			pod:     pod("p", container{'i', gpu(1, 40), held("GPU-b", 40)}, container{'a', gpu(1, 25), held("GPU-a", 25)}, container{'a', gpu(1, 20), held("GPU-b", 20)}),
			refused: refit.NoMemory,
		},
		{
			name: "two apps that fit together", allowed: "GPU-b", position: 1,
			pod:  pod("p", container{'i', gpu(1, 40), held("GPU-b", 40)}, container{'a', gpu(1, 20), held("GPU-a", 20)}, container{'a', gpu(1, 20), held("GPU-b", 20)}),
			want: "GPU-b,NVIDIA,40960,0:;GPU-b,NVIDIA,20480,0:;GPU-b,NVIDIA,20480,0:;",
		},
		{
			name: "slots are counted by entry", allowed: "GPU-b", position: 1,
			node:    node(card("GPU-a", 40, 2, ""), card("GPU-b", 40, 2, "")),
			pod:     pod("p", container{'i', gpu(1, 1), held("GPU-b", 1)}, container{'a', gpu(1, 1), held("GPU-a", 1)}, container{'a', gpu(1, 1), held("GPU-b", 1)}),
			others:  []*corev1.Pod{other("q", "GPU-b", 1)},
			refused: refit.NoSlots, // two apps and another's: three of two, though no more than two containers of the pod are on b
		},
		{
			name: "an init shares its slot with the app after it", allowed: "GPU-b", position: 0,
			node:   node(card("GPU-a", 40, 2, ""), card("GPU-b", 40, 2, "")),
			pod:    pod("p", container{'i', gpu(1, 1), held("GPU-a", 1)}, container{'a', gpu(1, 1), held("GPU-b", 1)}),
			others: []*corev1.Pod{other("q", "GPU-b", 1)},
			want:   "GPU-b,NVIDIA,1024,0:;GPU-b,NVIDIA,1024,0:;",
		},
		{
			name: "one of two devices is right already", allowed: "GPU-b,GPU-c", position: 0,
			node: node(card("GPU-a", 40, 10, ""), card("GPU-b", 40, 10, ""), card("GPU-c", 40, 10, "")),
			pod:  pod("p", container{'a', gpu(2, 10), held("GPU-a", 10) + held("GPU-b", 10)}),
			want: "GPU-c,NVIDIA,10240,0:GPU-b,NVIDIA,10240,0:;",
		},
		{
			name: "a container without devices in front shifts nothing", allowed: "GPU-b", position: 1,
			pod:  pod("p", container{'i', limits("cpu", "1"), ""}, container{'i', gpu(1, 30), held("GPU-a", 30)}, container{'a', gpu(1, 20), held("GPU-b", 20)}),
			want: ";GPU-b,NVIDIA,30720,0:;GPU-b,NVIDIA,20480,0:;",
		},
	})
}

// Amounts that differ per card move with their share; nothing but the UUIDs changes, whoever wrote it.
func TestRecordIsOtherwiseTheSame(t *testing.T) {
	unlike := node(card("GPU-a", 40, 10, ""), card("GPU-b", 80, 10, ""), card("GPU-c", 40, 10, ""), card("GPU-d", 80, 10, ""))
	percent := limits("nvidia.com/gpu", "2", "nvidia.com/gpumem-percentage", "50")
	foreign := pod("p", container{'i', gpu(1, 30), ""}, container{'a', gpu(2, 20), ""})
	foreign.Annotations[record] = "  GPU-a,NVIDIA,030720,00:;GPU-b,NVIDIA,20480,0:GPU-a,NVIDIA,020480,0:;\n"
	play(t, []situation{
		{
			name: "shares keep their place and amount", node: unlike, allowed: "GPU-c,GPU-d",
			pod:  pod("p", container{'a', percent, held("GPU-b", 40) + held("GPU-a", 20)}),
			want: "GPU-d,NVIDIA,40960,0:GPU-c,NVIDIA,20480,0:;",
		},
		{
			name: "half of a larger card is more than recorded", node: unlike, allowed: "GPU-d,GPU-b",
			pod:     pod("p", container{'a', percent, held("GPU-b", 40) + held("GPU-a", 20)}),
			refused: refit.NeedsMore,
		},
		{
			name: "half of a smaller card is too large for none", node: unlike, allowed: "GPU-a,GPU-c",
			pod:  pod("p", container{'a', percent, held("GPU-b", 40) + held("GPU-a", 20)}),
			want: "GPU-c,NVIDIA,40960,0:GPU-a,NVIDIA,20480,0:;",
		},
		{
			name: "the whole of a larger card is more than recorded", node: unlike, allowed: "GPU-d",
			pod:     pod("p", container{'a', limits("nvidia.com/gpu", "1"), held("GPU-a", 40)}),
			refused: refit.NeedsMore,
		},
		{
			name: "a UUID that looks like a number", node: node(card("0", 40, 10, ""), card("1", 40, 10, "")), allowed: "1",
			pod:  pod("p", container{'a', gpu(1, 10), held("0", 10)}),
			want: "1,NVIDIA,10240,0:;",
		},
		{
			name: "blanks and leading zeros stay", pod: foreign, allowed: "GPU-b",
			want: "  GPU-b,NVIDIA,030720,00:;GPU-b,NVIDIA,20480,0:GPU-a,NVIDIA,020480,0:;\n",
		},
	})
}

// change returns a pod as another change left it.
func change(p *corev1.Pod, how func(*corev1.Pod)) *corev1.Pod {
	how(p)
	return p
}

func annotated(key, value string) *corev1.Pod {
	return change(initThenApp('i'), func(p *corev1.Pod) { p.Annotations[key] = value })
}

// What else can be wrong with the pod, its containers and its node is refused by name.
func TestRefusedByName(t *testing.T) {
	second := func() *corev1.Pod { p := initThenApp('i'); p.Name, p.UID = "q", "uid-q"; return p }
	status := func(state corev1.ContainerState) *corev1.Pod {
		return change(initThenApp('i'), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i0", State: state}}
		})
	}
	now := metav1.Unix(1_700_000_000, 0)
	twoWith := func(more string) *corev1.Node { return node(card("GPU-a", 40, 10, ""), card("GPU-b", 40, 10, more)) }
	whole := func(uuid string) container {
		return container{'a', limits("nvidia.com/gpu", "1", "nvidia.com/gpumem", "1024", "nvidia.com/gpucores", "100"), uuid + ",NVIDIA,1024,100:"}
	}
	half := func(uuid string) container {
		return container{'a', limits("nvidia.com/gpu", "1", "nvidia.com/gpumem", "1024", "nvidia.com/gpucores", "60"), uuid + ",NVIDIA,1024,60:"}
	}
	play(t, []situation{
		{name: "being deleted", pod: change(initThenApp('i'), func(p *corev1.Pod) { p.DeletionTimestamp = &now }), allowed: "GPU-b", refused: refit.PodGone},
		{name: "container runs", pod: status(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), allowed: "GPU-b", refused: refit.AlreadyStarted},
		{name: "container has run", pod: status(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}), allowed: "GPU-b", refused: refit.AlreadyStarted},
		{name: "kubelet has reported", pod: started(initThenApp('i')), allowed: "GPU-b", refused: refit.NotPending},
		{name: "the pod has ended", pod: change(initThenApp('i'), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), allowed: "GPU-b", refused: refit.NotPending},
		{name: "another pod in the gate, identical or not", pod: initThenApp('i'), others: []*corev1.Pod{second()}, allowed: "GPU-b", refused: refit.AnotherInGate},
		{name: "a pod without a record is in no gate", pod: initThenApp('i'), others: []*corev1.Pod{change(second(), func(p *corev1.Pod) { delete(p.Annotations, record) })}, allowed: "GPU-b", want: "GPU-b,NVIDIA,30720,0:;GPU-b,NVIDIA,20480,0:;"},
		{name: "no record", pod: change(initThenApp('i'), func(p *corev1.Pod) { delete(p.Annotations, record) }), allowed: "GPU-b", refused: refit.NotRecorded},
		{name: "no devices recorded for the container", pod: pod("p", container{'a', gpu(1, 1), ""}), allowed: "GPU-b", refused: refit.NotRecorded},
		{name: "devices of another family", pod: change(pod("p", container{'a', limits("amd.com/gpu", "1"), ""}), func(p *corev1.Pod) {
			p.Annotations["hami.io/amd-devices-allocated"] = "GPU-a,AMD,1024,0:;"
		}), allowed: "GPU-b", refused: refit.NotRecorded},
		{name: "unreadable record", pod: annotated(record, "GPU-a,NVIDIA,30720"), allowed: "GPU-b", refused: refit.UnreadableRecord},
		{name: "edited to fewer containers", pod: annotated(record, "GPU-a,NVIDIA,30720,0:;"), allowed: "GPU-b", refused: refit.UnreadableRecord},
		{name: "edited to more devices than asked for", pod: annotated(record, "GPU-a,NVIDIA,1,0:GPU-b,NVIDIA,1,0:;GPU-b,NVIDIA,1,0:;"), allowed: "GPU-b", refused: refit.RecordMismatch},
		{name: "unreadable selector", pod: annotated("nvidia.com/numa-bind", "perhaps"), allowed: "GPU-b", refused: refit.UnreadablePod},
		{name: "not opted in", pod: change(initThenApp('i'), func(p *corev1.Pod) { delete(p.Annotations, "hami.io/numa-alignment") }), allowed: "GPU-b", refused: refit.NotOptedIn},
		{name: "not opted in, allowed already", pod: change(initThenApp('i'), func(p *corev1.Pod) { delete(p.Annotations, "hami.io/numa-alignment") }), allowed: "GPU-a"},
		{name: "opted in to what is unknown", pod: annotated("hami.io/numa-alignment", "lax"), allowed: "GPU-b", refused: refit.NotOptedIn},

		{name: "unreadable inventory", pod: initThenApp('i'), node: node(`{"id":""}`), allowed: "GPU-b", refused: refit.UnreadableInventory},
		{name: "unreadable neighbour", pod: initThenApp('i'), others: []*corev1.Pod{change(other("q", "GPU-a", 1), func(p *corev1.Pod) { p.Annotations[record] = "?" })}, allowed: "GPU-b", refused: refit.UnreadableNeighbour},
		{name: "unreadable neighbour, allowed already", pod: initThenApp('i'), others: []*corev1.Pod{change(other("q", "GPU-a", 1), func(p *corev1.Pod) { p.Annotations[record] = "?" })}, allowed: "GPU-a"},

		{name: "unknown device", pod: initThenApp('i'), allowed: "GPU-x", refused: refit.UnknownDevice},
		{name: "unknown device beside a known one", pod: initThenApp('i'), allowed: "GPU-x,GPU-b", want: "GPU-b,NVIDIA,30720,0:;GPU-b,NVIDIA,20480,0:;"},
		{name: "another family's device", pod: initThenApp('i'), node: change2(two(), "hami.io/node-amd-register", "["+card("AMD-a", 40, 10, "")+"]"), allowed: "AMD-a", refused: refit.OtherFamily},
		{name: "fewer devices than the container has", pod: pod("p", container{'a', gpu(2, 1), held("GPU-a", 1) + held("GPU-b", 1)}), allowed: "GPU-b", refused: refit.TooFewDevices},
		{name: "excluded by UUID", pod: annotated("nvidia.com/nouse-gpuuuid", "GPU-b"), allowed: "GPU-b", refused: refit.NotSelected},
		{name: "not selected by UUID", pod: annotated("nvidia.com/use-gpuuuid", "GPU-a"), allowed: "GPU-b", refused: refit.NotSelected},
		{name: "excluded by model", pod: annotated("nvidia.com/nouse-gputype", "a100"), allowed: "GPU-b", refused: refit.NotSelected},
		{name: "in MIG mode", pod: initThenApp('i'), node: twoWith(`,"mode":"mig"`), allowed: "GPU-b", refused: refit.InMIGMode},
		{name: "unhealthy", pod: initThenApp('i'), node: node(card("GPU-a", 40, 10, ""), strings.Replace(card("GPU-b", 40, 10, ""), `"health":true`, `"health":false`, 1)), allowed: "GPU-b", refused: refit.Unhealthy},
		{name: "cordoned", pod: initThenApp('i'), node: change2(two(), "hami.io/device-cordon", "GPU-b"), allowed: "GPU-b", refused: refit.Cordoned},
		{name: "too small", pod: initThenApp('i'), node: node(card("GPU-a", 40, 10, ""), card("GPU-b", 24, 10, "")), allowed: "GPU-b", refused: refit.CapacityTooSmall},
		{
			name: "not on one NUMA node", allowed: "GPU-b,GPU-c", refused: refit.NotOnOneNUMANode,
			pod:  change(pod("p", container{'a', gpu(2, 1), held("GPU-a", 1) + held("GPU-b", 1)}), func(p *corev1.Pod) { p.Annotations["nvidia.com/numa-bind"] = "true" }),
			node: node(card("GPU-a", 40, 10, ""), card("GPU-b", 40, 10, ""), card("GPU-c", 40, 10, `,"numa":1`)),
		},
		{name: "in exclusive use", pod: pod("p", container{'a', gpu(1, 1), held("GPU-a", 1)}), others: []*corev1.Pod{started(pod("q", whole("GPU-b")))}, allowed: "GPU-b", refused: refit.Exclusive},
		{name: "wants one alone", pod: pod("p", whole("GPU-a")), others: []*corev1.Pod{other("q", "GPU-b", 1)}, allowed: "GPU-b", refused: refit.Exclusive},
		{name: "too few cores", pod: pod("p", half("GPU-a")), others: []*corev1.Pod{started(pod("q", half("GPU-b")))}, allowed: "GPU-b", refused: refit.NoCores},
	})
}

func change2(n *corev1.Node, key, value string) *corev1.Node {
	n.Annotations[key] = value
	n.Status.Allocatable["amd.com/gpu"] = n.Status.Allocatable["nvidia.com/gpu"]
	return n
}

// Others are charged what their remaining phases can use, by their release policy or the operator's.
func TestOthersByPhase(t *testing.T) {
	done := func(name, release string) *corev1.Pod { // 30 on b while its init ran, 5 since
		p := started(pod(name, container{'i', gpu(1, 30), held("GPU-b", 30)}, container{'a', gpu(1, 5), held("GPU-b", 5)}))
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i0", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{StartedAt: *p.Status.StartTime, FinishedAt: *p.Status.StartTime},
		}}}
		if release != "" {
			p.Annotations["phasegpu.io/release"] = release
		}
		return p
	}
	ended := change(done("q", ""), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded; p.Annotations[record] = "?" })
	for _, test := range []struct {
		name    string
		other   *corev1.Pod
		release phase.Release
		refused refit.Reason
	}{
		{"its init is over", done("q", ""), phase.PerInit, ""},
		{"the operator holds", done("q", ""), phase.Hold, refit.NoMemory},
		{"it holds", done("q", "hold"), phase.PerInit, refit.NoMemory},
		{"it does not hold though the operator does", done("q", "per-init"), phase.Hold, ""},
		{"it has ended", ended, phase.Hold, ""},
		{"it is on another node", change(done("q", "hold"), func(p *corev1.Pod) { p.Spec.NodeName = "other" }), phase.Hold, ""},
	} {
		p := initThenApp('i')
		_, refusal := refit.Decide(p, two(), []corev1.Pod{*test.other}, ask(p, 0, "GPU-b"), refit.Defaults{Release: test.release})
		if got := reasonOf(refusal); got != test.refused {
			t.Errorf("%s: refused with %q, want %q", test.name, got, test.refused)
		}
	}
}

func reasonOf(r *refit.Refusal) refit.Reason {
	if r == nil {
		return ""
	}
	return r.Reason
}

// The question itself: about another pod, node, container or family.
func TestQuestion(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*refit.Request)
		refused refit.Reason
	}{
		{"as it is", func(*refit.Request) {}, ""},
		{"another UID", func(r *refit.Request) { r.Pod.UID = "uid-old" }, refit.PodReplaced},
		{"another node", func(r *refit.Request) { r.Node = "other" }, refit.BoundElsewhere},
		{"another container's name", func(r *refit.Request) { r.Container.Name = "a0" }, refit.UnknownContainer},
		{"another container's position", func(r *refit.Request) { r.Container.Position = 1 }, refit.UnknownContainer},
		{"a position beyond the last", func(r *refit.Request) { r.Container.Position = 2 }, refit.UnknownContainer},
		{"a family spelled otherwise", func(r *refit.Request) { r.Family = "nvidia" }, refit.UnknownFamily},
		{"part of a family's name", func(r *refit.Request) { r.Family = "NVIDI" }, refit.UnknownFamily},
		{"a family without refit", func(r *refit.Request) { r.Family = "AMD" }, refit.NoRefitSupport},
	} {
		p := initThenApp('i')
		r := ask(p, 0, "GPU-b")
		test.change(r)
		_, refusal := refit.Decide(p, two(), nil, r, refit.Defaults{})
		if got := reasonOf(refusal); got != test.refused {
			t.Errorf("%s: refused with %q, want %q", test.name, got, test.refused)
		}
	}
	p := initThenApp('i')
	r := ask(p, 0, "GPU-b")
	if _, refusal := refit.Decide(nil, two(), nil, r, refit.Defaults{}); reasonOf(refusal) != refit.PodGone {
		t.Errorf("no pod: %v", refusal)
	}
	if _, refusal := refit.Decide(p, nil, nil, r, refit.Defaults{}); reasonOf(refusal) != refit.NodeGone {
		t.Errorf("no node: %v", refusal)
	}
	p.Spec.NodeName = ""
	if _, refusal := refit.Decide(p, two(), nil, r, refit.Defaults{}); reasonOf(refusal) != refit.BoundElsewhere {
		t.Errorf("not bound: %v", refusal)
	}
}

// Case 45 and the 5: the devices' books follow the container and the namespace's charge stays.
func TestNamespaceChargeStays(t *testing.T) {
	half := func(uuid string) string { return uuid + ",NVIDIA,5000,0:" }
	asks := limits("nvidia.com/gpu", "1", "nvidia.com/gpumem", "5000")
	p := pod("p", container{'i', asks, half("GPU-a")}, container{'a', asks, half("GPU-a")}, container{'a', asks, half("GPU-a")})
	charges := func() (devices map[string]int64, total int64) {
		book := ledger.New()
		book.Observe(kube.LedgerPod(p, phase.PerInit))
		e := book.Pod(string(p.UID))
		devices = map[string]int64{}
		for _, h := range e.Reserved.Devices {
			devices[h.UUID] = h.MemoryMiB
		}
		return devices, e.Reserved.Totals[0].MemoryMiB
	}
	devices, total := charges()
	if diff := cmp.Diff(map[string]int64{"GPU-a": 10000}, devices); diff != "" || total != 10000 {
		t.Errorf("before: %d, %s", total, diff)
	}
	d, refusal := refit.Decide(p, two(), nil, ask(p, 0, "GPU-b"), refit.Defaults{})
	if refusal != nil {
		t.Fatal(refusal)
	}
	p.Annotations[d.Annotation] = d.Value
	devices, total = charges()
	if diff := cmp.Diff(map[string]int64{"GPU-a": 10000, "GPU-b": 5000}, devices); diff != "" || total != 10000 {
		t.Errorf("after: %d, %s", total, diff)
	}
	recorded, err := kube.Allocation(p)
	if diff := cmp.Diff(d.Allocation, recorded); diff != "" || err != nil {
		t.Errorf("the decision says otherwise than the record: %s, %v", diff, err)
	}
	if diff := cmp.Diff([]string{"GPU-b"}, d.Devices(0)); diff != "" {
		t.Error(diff)
	}
}
