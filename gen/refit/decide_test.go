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
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
)

const gib = 1024

func share(uuid string, gibibytes int) string { return rt.Share(uuid, gibibytes*gib) }

// one is a container of a class with one device.
func one(class rune, uuid string, gibibytes int) rt.Container {
	return rt.Container{Class: class, Entry: share(uuid, gibibytes)}
}

// pod returns a pod that opted in.
func pod(name string, containers ...rt.Container) *corev1.Pod {
	return rt.Annotated(rt.Pod(name, containers...), rt.Alignment, "strict")
}

// other is a running pod that holds memory on a device.
func other(uuid string, gibibytes int) *corev1.Pod {
	return rt.Started(pod("q", one('a', uuid, gibibytes)))
}

// then is a pod with 30 GiB on GPU-a for a container of a class, then 20 GiB on GPU-b for an app.
func then(class rune) *corev1.Pod { return pod("p", one(class, "GPU-a", 30), one('a', "GPU-b", 20)) }

func card(uuid string, gibibytes int, more string) string {
	return rt.Card(uuid, gibibytes*gib, 10, more)
}

// two is a node with GPU-a and GPU-b of 40 GiB; more is said of GPU-b.
func two(more string) *corev1.Node { return rt.Node(card("GPU-a", 40, ""), card("GPU-b", 40, more)) }

// situation is a request for one container of a pod.
type situation struct {
	name     string
	pod      *corev1.Pod  // then('i') when nil
	node     *corev1.Node // two("") when nil
	others   []*corev1.Pod
	position int
	allowed  string // with commas; GPU-b when empty
	want     string // the new record, "" when it stays
	refused  refit.Reason
}

func (s *situation) decide(t *testing.T) {
	t.Helper()
	if s.pod == nil {
		s.pod = then('i')
	}
	if s.node == nil {
		s.node = two("")
	}
	if s.allowed == "" {
		s.allowed = "GPU-b"
	}
	pods := []corev1.Pod{*s.pod}
	for _, other := range s.others {
		pods = append(pods, *other)
	}
	before := s.pod.DeepCopy()
	request := rt.Request(s.pod, s.position, strings.Split(s.allowed, ",")...)
	d, refusal := refit.Decide(s.pod, s.node, pods, request, refit.Defaults{})
	if diff := cmp.Diff(before, s.pod); diff != "" {
		t.Errorf("the pod was changed: %s", diff)
	}
	if got := rt.Reason(refusal); got != s.refused {
		t.Fatalf("refused with %v, want %q", refusal, s.refused)
	}
	if d.Value != s.want || d.Changed != (s.want != "") {
		t.Errorf("changed %v to\n%q, want\n%q", d.Changed, d.Value, s.want)
	}
}

func decideAll(t *testing.T, situations []situation) {
	t.Helper()
	for i := range situations {
		t.Run(situations[i].name, func(t *testing.T) { situations[i].decide(t) })
	}
}

const onB = "GPU-b,NVIDIA,30720,0:;GPU-b,NVIDIA,20480,0:;"

// What counts on the new device is the pod's peak there, not a sum.
func TestPeakNotSum(t *testing.T) {
	decideAll(t, []situation{
		{name: "init joins its app", want: onB},
		{name: "sidecar does not fit beside its app", pod: then('s'), refused: refit.NoMemory},
		{name: "another pod's 15 is too much", others: []*corev1.Pod{other("GPU-b", 15)}, refused: refit.NoMemory},
		{name: "another pod's 10 is not", others: []*corev1.Pod{other("GPU-b", 10)}, want: onB},
		{name: "allowed already", allowed: "GPU-b,GPU-a"},
	})
}

// What stays beside what moves.
func TestContainersOfOnePod(t *testing.T) {
	slots := rt.Node(rt.Card("GPU-a", 40*gib, 2, ""), rt.Card("GPU-b", 40*gib, 2, ""))
	decideAll(t, []situation{
		{ // 35 alone, then 30+5
			name: "sidecar after a larger init", position: 1,
			pod:  pod("p", one('i', "GPU-b", 35), one('s', "GPU-a", 30), one('a', "GPU-b", 5)),
			want: "GPU-b,NVIDIA,35840,0:;GPU-b,NVIDIA,30720,0:;GPU-b,NVIDIA,5120,0:;",
		},
		{ // 30+35
			name: "sidecar before a larger init", refused: refit.NoMemory,
			pod: pod("p", one('s', "GPU-a", 30), one('i', "GPU-b", 35), one('a', "GPU-b", 5)),
		},
		{ // 30+10 twice, not 50
			name: "init after a larger sidecar", allowed: "GPU-a", position: 1,
			pod:  pod("p", one('s', "GPU-a", 30), one('i', "GPU-b", 10), one('a', "GPU-a", 10)),
			want: "GPU-a,NVIDIA,30720,0:;GPU-a,NVIDIA,10240,0:;GPU-a,NVIDIA,10240,0:;",
		},
		{
			name: "init after a sidecar that leaves too little", allowed: "GPU-a", position: 1, refused: refit.NoMemory,
			pod: pod("p", one('s', "GPU-a", 30), one('i', "GPU-b", 11), one('a', "GPU-a", 10)),
		},
		{
			name: "two apps live together", position: 1, refused: refit.NoMemory,
			pod: pod("p", one('i', "GPU-b", 40), one('a', "GPU-a", 25), one('a', "GPU-b", 20)),
		},
		{
			name: "two apps that fit together", position: 1,
			pod:  pod("p", one('i', "GPU-b", 40), one('a', "GPU-a", 20), one('a', "GPU-b", 20)),
			want: "GPU-b,NVIDIA,40960,0:;GPU-b,NVIDIA,20480,0:;GPU-b,NVIDIA,20480,0:;",
		},
		{ // two apps and another pod's, of two slots; no more than two of the pod's containers are on b
			name: "slots are counted by entry", position: 1, node: slots, refused: refit.NoSlots,
			pod:    pod("p", one('i', "GPU-b", 1), one('a', "GPU-a", 1), one('a', "GPU-b", 1)),
			others: []*corev1.Pod{other("GPU-b", 1)},
		},
		{
			name: "an init shares its slot with the app after it", node: slots,
			pod:    pod("p", one('i', "GPU-a", 1), one('a', "GPU-b", 1)),
			others: []*corev1.Pod{other("GPU-b", 1)},
			want:   "GPU-b,NVIDIA,1024,0:;GPU-b,NVIDIA,1024,0:;",
		},
		{
			name: "one of two devices is right already", allowed: "GPU-b,GPU-c",
			node: rt.Node(card("GPU-a", 40, ""), card("GPU-b", 40, ""), card("GPU-c", 40, "")),
			pod:  pod("p", rt.Container{Class: 'a', Entry: share("GPU-a", 10) + share("GPU-b", 10)}),
			want: "GPU-c,NVIDIA,10240,0:GPU-b,NVIDIA,10240,0:;",
		},
		{
			name: "a container without devices in front shifts nothing", position: 1, want: ";" + onB,
			pod: pod("p", rt.Container{Class: 'i', Limits: rt.Limits("cpu", "1")}, one('i', "GPU-a", 30),
				one('a', "GPU-b", 20)),
		},
	})
}

// Amounts that differ per card move with their share. Nothing but the UUIDs changes, whoever wrote it.
func TestRecordIsOtherwiseTheSame(t *testing.T) {
	unlike := rt.Node(card("GPU-a", 40, ""), card("GPU-b", 80, ""), card("GPU-c", 40, ""), card("GPU-d", 80, ""))
	percent := pod("p", rt.Container{Class: 'a', Entry: share("GPU-b", 40) + share("GPU-a", 20),
		Limits: rt.Limits("nvidia.com/gpu", "2", "nvidia.com/gpumem-percentage", "50")})
	foreign := pod("p", one('i', "GPU-a", 30), rt.Container{Class: 'a', Entry: share("GPU-b", 20) + share("GPU-a", 20)})
	foreign.Annotations[rt.Record] = "  GPU-a,NVIDIA,030720,00:;GPU-b,NVIDIA,20480,0:GPU-a,NVIDIA,020480,0:;\n"
	decideAll(t, []situation{
		{
			name: "shares keep their place and amount", node: unlike, allowed: "GPU-c,GPU-d", pod: percent,
			want: "GPU-d,NVIDIA,40960,0:GPU-c,NVIDIA,20480,0:;",
		},
		{
			name: "half of a larger card is more than recorded", node: unlike, allowed: "GPU-d,GPU-b", pod: percent,
			refused: refit.NeedsMore,
		},
		{
			name: "half of a smaller card is too large for none", node: unlike, allowed: "GPU-a,GPU-c", pod: percent,
			want: "GPU-c,NVIDIA,40960,0:GPU-a,NVIDIA,20480,0:;",
		},
		{
			name: "the whole of a larger card is more than recorded", node: unlike, allowed: "GPU-d",
			refused: refit.NeedsMore,
			pod: pod("p", rt.Container{Class: 'a', Entry: share("GPU-a", 40),
				Limits: rt.Limits("nvidia.com/gpu", "1")}),
		},
		{
			name: "a UUID that looks like a number", node: rt.Node(card("0", 40, ""), card("1", 40, "")), allowed: "1",
			pod: pod("p", one('a', "0", 10)), want: "1,NVIDIA,10240,0:;",
		},
		{
			name: "blanks and leading zeros stay", pod: foreign,
			want: "  GPU-b,NVIDIA,030720,00:;GPU-b,NVIDIA,20480,0:GPU-a,NVIDIA,020480,0:;\n",
		},
	})
}

// change returns the pod after a change.
func change(p *corev1.Pod, how func(*corev1.Pod)) *corev1.Pod {
	how(p)
	return p
}

func annotated(key, value string) *corev1.Pod { return rt.Annotated(then('i'), key, value) }

// Everything else that can be wrong with the pod, its containers and its node is refused by name.
func TestRefusedByName(t *testing.T) {
	second := func() *corev1.Pod { p := then('i'); p.Name, p.UID = "q", "q"; return p }
	status := func(state corev1.ContainerState) *corev1.Pod {
		return change(then('i'), func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i0", State: state}}
		})
	}
	cores := func(uuid string, percent string) rt.Container {
		return rt.Container{Class: 'a', Entry: uuid + ",NVIDIA,1024," + percent + ":"}
	}
	running := func(c rt.Container) []*corev1.Pod { return []*corev1.Pod{rt.Started(pod("q", c))} }
	amd := rt.Pod("p", rt.Container{Class: 'a', Limits: rt.Limits("amd.com/gpu", "1")})
	rt.Annotated(rt.Annotated(amd, rt.Record, ";"), "hami.io/amd-devices-allocated", "GPU-a,AMD,1024,0:;")
	pair := rt.Container{Class: 'a', Entry: share("GPU-a", 1) + share("GPU-b", 1)}
	unreadable := []*corev1.Pod{rt.Annotated(other("GPU-a", 1), rt.Record, "?")}
	deleted := change(then('i'), func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Unix(1_700_000_000, 0)) })
	ended := change(then('i'), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	sick := rt.Node(card("GPU-a", 40, ""), strings.Replace(card("GPU-b", 40, ""), `"health":true`, `"health":false`, 1))
	cordoned, twoFamilies := two(""), two("")
	cordoned.Annotations["hami.io/device-cordon"] = "GPU-b"
	twoFamilies.Annotations["hami.io/node-amd-register"] = "[" + card("AMD-a", 40, "") + "]"
	twoFamilies.Status.Allocatable["amd.com/gpu"] = twoFamilies.Status.Allocatable["nvidia.com/gpu"]
	decideAll(t, []situation{
		{name: "being deleted", pod: deleted, refused: refit.PodGone},
		{name: "container runs", pod: status(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}),
			refused: refit.AlreadyStarted},
		{name: "container has run", pod: status(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}),
			refused: refit.AlreadyStarted},
		{name: "kubelet has reported", pod: rt.Started(then('i')), refused: refit.NotPending},
		{name: "the pod has ended", pod: ended, refused: refit.NotPending},
		{name: "another pod in the gate, identical or not", others: []*corev1.Pod{second()},
			refused: refit.AnotherInGate},
		{name: "a pod without a record is in no gate", others: []*corev1.Pod{rt.Annotated(second(), rt.Record, "")},
			want: onB},
		{name: "no record", pod: annotated(rt.Record, ""), refused: refit.NotRecorded},
		{name: "no devices recorded for the container", refused: refit.NotRecorded,
			pod: pod("p", rt.Container{Class: 'a', Limits: rt.Limits("nvidia.com/gpu", "1", "nvidia.com/gpumem",
				"1024")})},
		{name: "devices of another family", pod: amd, refused: refit.NotRecorded},
		{name: "unreadable record", pod: annotated(rt.Record, "GPU-a,NVIDIA,30720"), refused: refit.UnreadableRecord},
		{name: "edited to fewer containers", pod: annotated(rt.Record, "GPU-a,NVIDIA,30720,0:;"),
			refused: refit.UnreadableRecord},
		{name: "edited to more devices than requested", refused: refit.RecordMismatch,
			pod: annotated(rt.Record, "GPU-a,NVIDIA,1,0:GPU-b,NVIDIA,1,0:;GPU-b,NVIDIA,1,0:;")},
		{name: "unreadable selector", pod: annotated("nvidia.com/numa-bind", "perhaps"), refused: refit.UnreadablePod},
		{name: "not opted in", pod: annotated(rt.Alignment, ""), refused: refit.NotOptedIn},
		{name: "not opted in, allowed already", pod: annotated(rt.Alignment, ""), allowed: "GPU-a"},
		{name: "opted in to what is unknown", pod: annotated(rt.Alignment, "lax"), refused: refit.NotOptedIn},

		{name: "unreadable inventory", node: rt.Node(`{"id":""}`), refused: refit.UnreadableInventory},
		{name: "unreadable neighbour", others: unreadable, refused: refit.UnreadableNeighbour},
		{name: "unreadable neighbour, allowed already", others: unreadable, allowed: "GPU-a"},

		{name: "unknown device", allowed: "GPU-x", refused: refit.UnknownDevice},
		{name: "unknown device beside a known one", allowed: "GPU-x,GPU-b", want: onB},
		{name: "another family's device", node: twoFamilies, allowed: "AMD-a", refused: refit.OtherFamily},
		{name: "fewer devices than the container has", pod: pod("p", pair), refused: refit.TooFewDevices},
		{name: "excluded by UUID", pod: annotated("nvidia.com/nouse-gpuuuid", "GPU-b"), refused: refit.NotSelected},
		{name: "not selected by UUID", pod: annotated("nvidia.com/use-gpuuuid", "GPU-a"), refused: refit.NotSelected},
		{name: "excluded by model", pod: annotated("nvidia.com/nouse-gputype", "a100"), refused: refit.NotSelected},
		{name: "in MIG mode", node: two(`,"mode":"mig"`), refused: refit.InMIGMode},
		{name: "unhealthy", node: sick, refused: refit.Unhealthy},
		{name: "cordoned", node: cordoned, refused: refit.Cordoned},
		{name: "too small", node: rt.Node(card("GPU-a", 40, ""), card("GPU-b", 24, "")),
			refused: refit.CapacityTooSmall},
		{
			name: "not on one NUMA node", allowed: "GPU-b,GPU-c", refused: refit.NotOnOneNUMANode,
			pod:  rt.Annotated(pod("p", pair), "nvidia.com/numa-bind", "true"),
			node: rt.Node(card("GPU-a", 40, ""), card("GPU-b", 40, ""), card("GPU-c", 40, `,"numa":1`)),
		},
		{name: "in exclusive use", pod: pod("p", one('a', "GPU-a", 1)), others: running(cores("GPU-b", "100")),
			refused: refit.Exclusive},
		{name: "wants one alone", pod: pod("p", cores("GPU-a", "100")), others: []*corev1.Pod{other("GPU-b", 1)},
			refused: refit.Exclusive},
		{name: "too few cores", pod: pod("p", cores("GPU-a", "60")), others: running(cores("GPU-b", "60")),
			refused: refit.NoCores},
	})
}

// Other pods are charged what their remaining phases can use, by their release policy or the operator's.
func TestOthersByPhase(t *testing.T) {
	done := func(release string) *corev1.Pod { // 30 on b while its init ran, 5 since
		p := rt.Started(pod("q", one('i', "GPU-b", 30), one('a', "GPU-b", 5)))
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i0", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{StartedAt: *p.Status.StartTime,
				FinishedAt: *p.Status.StartTime},
		}}}
		return rt.Annotated(p, "phasegpu.io/release", release)
	}
	ended := change(rt.Annotated(done(""), rt.Record, "?"),
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	elsewhere := change(done("hold"), func(p *corev1.Pod) { p.Spec.NodeName = "other" })
	for _, test := range []struct {
		name    string
		other   *corev1.Pod
		release phase.Release
		refused refit.Reason
	}{
		{"its init is over", done(""), phase.PerInit, ""},
		{"the operator holds", done(""), phase.Hold, refit.NoMemory},
		{"it holds", done("hold"), phase.PerInit, refit.NoMemory},
		{"it does not hold though the operator does", done("per-init"), phase.Hold, ""},
		{"it has ended", ended, phase.Hold, ""},
		{"it is on another node", elsewhere, phase.Hold, ""},
	} {
		p := then('i')
		request := rt.Request(p, 0, "GPU-b")
		_, refusal := refit.Decide(p, two(""), []corev1.Pod{*test.other}, request,
			refit.Defaults{Release: test.release})
		if got := rt.Reason(refusal); got != test.refused {
			t.Errorf("%s: refused with %q, want %q", test.name, got, test.refused)
		}
	}
}

// Requests about another pod, node, container or family.
func TestQuestion(t *testing.T) {
	unbound := change(then('i'), func(p *corev1.Pod) { p.Spec.NodeName = "" })
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		node    *corev1.Node
		change  func(*refit.Request)
		refused refit.Reason
	}{
		{"as it is", then('i'), two(""), func(*refit.Request) {}, ""},
		{"another UID", then('i'), two(""), func(r *refit.Request) { r.Pod.UID = "old" }, refit.PodReplaced},
		{"another node", then('i'), two(""), func(r *refit.Request) { r.Node = "other" }, refit.BoundElsewhere},
		{"another container's name", then('i'), two(""), func(r *refit.Request) { r.Container.Name = "a1" },
			refit.UnknownContainer},
		{"another container's position", then('i'), two(""), func(r *refit.Request) { r.Container.Position = 1 },
			refit.UnknownContainer},
		{"a position beyond the last", then('i'), two(""), func(r *refit.Request) { r.Container.Position = 2 },
			refit.UnknownContainer},
		{"a family spelled otherwise", then('i'), two(""), func(r *refit.Request) { r.Family = "nvidia" },
			refit.UnknownFamily},
		{"part of a family's name", then('i'), two(""), func(r *refit.Request) { r.Family = "NVIDI" },
			refit.UnknownFamily},
		{"a family without refit", then('i'), two(""), func(r *refit.Request) { r.Family = "AMD" },
			refit.NoRefitSupport},
		{"no pod", nil, two(""), func(*refit.Request) {}, refit.PodGone},
		{"no node", then('i'), nil, func(*refit.Request) {}, refit.NodeGone},
		{"not bound", unbound, two(""), func(*refit.Request) {}, refit.BoundElsewhere},
	} {
		request := rt.Request(then('i'), 0, "GPU-b")
		test.change(request)
		_, refusal := refit.Decide(test.pod, test.node, nil, request, refit.Defaults{})
		if got := rt.Reason(refusal); got != test.refused {
			t.Errorf("%s: refused with %q, want %q", test.name, got, test.refused)
		}
	}
}

// The devices' books follow the container, and the namespace's charge stays.
func TestNamespaceChargeStays(t *testing.T) {
	half := func(class rune) rt.Container { return rt.Container{Class: class, Entry: rt.Share("GPU-a", 5000)} }
	p := pod("p", half('i'), half('a'), half('a'))
	charged := func(want map[string]int64) {
		t.Helper()
		book := ledger.New()
		book.Observe(kube.LedgerPod(p, phase.PerInit))
		e := book.Pod(string(p.UID))
		devices := map[string]int64{}
		for _, h := range e.Reserved.Devices {
			devices[h.UUID] = h.MemoryMiB
		}
		if diff := cmp.Diff(want, devices); diff != "" || e.Reserved.Totals[0].MemoryMiB != 10000 {
			t.Errorf("the namespace is charged %d, devices (-want +got): %s", e.Reserved.Totals[0].MemoryMiB, diff)
		}
	}
	charged(map[string]int64{"GPU-a": 10000})
	d, refusal := refit.Decide(p, two(""), nil, rt.Request(p, 0, "GPU-b"), refit.Defaults{})
	if refusal != nil {
		t.Fatal(refusal)
	}
	p.Annotations[d.Annotation] = d.Value
	charged(map[string]int64{"GPU-a": 10000, "GPU-b": 5000})
	recorded, err := kube.Allocation(p)
	if diff := cmp.Diff(d.Allocation, recorded); diff != "" || err != nil {
		t.Errorf("the decision differs from the record: %s, %v", diff, err)
	}
	if diff := cmp.Diff([]string{"GPU-b"}, d.Devices(0)); diff != "" {
		t.Error(diff)
	}
}
