package why_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/why"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

var start = time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)

// objects are a cluster as the API server has it.
type objects struct {
	nodes  []*corev1.Node
	pods   []*corev1.Pod
	quotas []*corev1.ResourceQuota
}

func (w objects) ask(pod *corev1.Pod) *why.Report {
	on := fit.New(w.nodes, w.pods, w.quotas, podrequest.Defaults{}, func(string, error) {})
	return why.Explain(why.Question{Pod: pod, Cluster: on, Release: phase.PerInit, Details: 1, Now: start})
}

// after is the cluster when events have happened.
func (w objects) after(t *testing.T, events []why.Event) objects {
	w.pods = slices.Clone(w.pods)
	for _, e := range events {
		i := slices.IndexFunc(w.pods, func(p *corev1.Pod) bool { return p.Name == e.Pod })
		if i < 0 {
			t.Fatalf("an event of pod %s, which is not there", e.Pod)
		}
		if e.Container == "" {
			w.pods = slices.Delete(w.pods, i, i+1)
			continue
		}
		k := slices.IndexFunc(w.pods[i].Spec.InitContainers,
			func(c corev1.Container) bool { return c.Name == e.Container })
		w.pods[i] = progressed(w.pods[i], k+1)
	}
	return w
}

// progressed returns a pod of which so many init containers have ended.
func progressed(pod *corev1.Pod, inits int) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, StartTime: &metav1.Time{Time: start}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: start.Add(time.Hour)}}}
	for i, c := range pod.Spec.InitContainers {
		status := corev1.ContainerStatus{Name: c.Name}
		switch {
		case i < inits:
			status.State.Terminated = &corev1.ContainerStateTerminated{
				StartedAt: metav1.Time{Time: start.Add(time.Duration(i) * time.Minute)}, FinishedAt: metav1.Time{Time: start.Add(time.Duration(i+1) * time.Minute)},
			}
		case i == inits:
			status.State = running
		}
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status)
	}
	if inits == len(pod.Spec.InitContainers) {
		pod.Status.Phase = corev1.PodRunning
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses,
				corev1.ContainerStatus{Name: c.Name, State: running})
		}
	}
	return pod
}

// limits ask for one device.
func limits(memoryMiB, cores int64) corev1.ResourceRequirements {
	list := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(1, resource.DecimalSI)}
	if memoryMiB > 0 {
		list["nvidia.com/gpumem"] = *resource.NewQuantity(memoryMiB, resource.DecimalSI)
	}
	if cores > 0 {
		list["nvidia.com/gpucores"] = *resource.NewQuantity(cores, resource.DecimalSI)
	}
	return corev1.ResourceRequirements{Limits: list}
}

// random makes a cluster, and a pod that waits in it.
func random(r *rand.Rand) (objects, *corev1.Pod) {
	var w objects
	cards := map[string][]string{}
	for n := range 1 + r.IntN(3) {
		name := fmt.Sprintf("n%d", n)
		var inventory []string
		for d := range 1 + r.IntN(2) {
			uuid := fmt.Sprintf("GPU-%d-%d", n, d)
			cards[name] = append(cards[name], uuid)
			inventory = append(inventory,
				fmt.Sprintf(`{"id":%q,"index":%d,"count":4,"devmem":100,"devcore":100,"type":"T","health":true}`, uuid,
					d))
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{"hami.io/node-nvidia-register": "[" + strings.Join(inventory, ",") + "]"}}}
		node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(2+r.IntN(6)),
			resource.DecimalSI)}
		w.nodes = append(w.nodes, node)
	}
	for i := range r.IntN(7) {
		name := w.nodes[r.IntN(len(w.nodes))].Name
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: fmt.Sprintf("p%d", i),
			UID: types.UID(fmt.Sprint("u", i)), Annotations: map[string]string{}}}
		pod.Spec.NodeName = name
		if r.IntN(4) == 0 {
			pod.Annotations["phasegpu.io/release"] = []string{"all-inits", "hold"}[r.IntN(2)]
		}
		var record strings.Builder
		inits := r.IntN(3)
		for k := range inits + 1 {
			memory, cores := 5+r.Int64N(60), []int64{0, 0, 30, 100}[r.IntN(4)]
			c := corev1.Container{Name: fmt.Sprintf("c%d", k), Resources: limits(memory, cores)}
			if k < inits {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
			} else {
				pod.Spec.Containers = append(pod.Spec.Containers, c)
			}
			fmt.Fprintf(&record, "%s,NVIDIA,%d,%d:;", cards[name][r.IntN(len(cards[name]))], memory, cores)
		}
		pod.Annotations["hami.io/vgpu-devices-allocated"] = record.String()
		w.pods = append(w.pods, progressed(pod, r.IntN(inits+1)))
	}
	for i := range r.IntN(3) {
		first := int32(10)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: fmt.Sprintf("nominated%d", i),
			UID: types.UID(fmt.Sprint("n", i))}}
		pod.Spec.Priority, pod.Status.NominatedNodeName = &first, w.nodes[r.IntN(len(w.nodes))].Name
		pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: limits(5+r.Int64N(30), 0)}}
		w.pods = append(w.pods, pod)
	}
	if r.IntN(2) == 0 {
		hard := corev1.ResourceList{"limits.nvidia.com/gpumem": *resource.NewQuantity(50+r.Int64N(250),
			resource.DecimalSI)}
		w.quotas = append(w.quotas, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "q"},
			Spec: corev1.ResourceQuotaSpec{Hard: hard}})
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "waiting", UID: "w"},
		Spec: corev1.PodSpec{SchedulerName: "phasegpu-scheduler"}}
	memory := func() int64 { // sometimes the whole card
		if r.IntN(8) == 0 {
			return 0
		}
		return 10 + r.Int64N(90)
	}
	for k := range r.IntN(3) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers,
			corev1.Container{Name: fmt.Sprintf("i%d", k), Resources: limits(memory(), 0)})
	}
	pod.Spec.Containers = []corev1.Container{{Name: "a", Resources: limits(memory(), []int64{0, 50}[r.IntN(2)])}}
	return w, pod
}

// capped returns a pod that asks for no more memory than that.
func capped(pod *corev1.Pod, memoryMiB int64) *corev1.Pod {
	pod = pod.DeepCopy()
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if q, ok := list[i].Resources.Limits["nvidia.com/gpumem"]; !ok || q.Value() > memoryMiB {
				list[i].Resources.Limits["nvidia.com/gpumem"] = *resource.NewQuantity(memoryMiB, resource.DecimalSI)
			}
		}
	}
	return pod
}

// TestRemediesHold applies each remedy to the objects themselves and asks again: it helps, and none of its events is
// superfluous.
func TestRemediesHold(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	seen := map[string]int{}
	for i := range 1500 {
		w, pod := random(r)
		report := w.ask(pod)
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d, cluster %d: %s\nremedies %+v\nquotas %+v", seed, i, fmt.Sprintf(format, args...),
				report.Remedies, report.Quotas)
		}
		if !report.Waits() && len(report.Remedies) > 0 {
			fail("remedies for a pod that fits")
		}
		for _, remedy := range report.Remedies {
			seen[remedy.Kind]++
			switch remedy.Kind {
			case "end", "delete":
				if !slices.Contains(w.after(t, remedy.Events).ask(pod).Fits, remedy.Nodes[0]) {
					fail("%s: it does not fit then", remedy.Text)
				}
				for k, e := range remedy.Events {
					if strings.HasPrefix(e.Pod, "nominated") {
						seen["kept"]++
					}
					fewer := slices.Delete(slices.Clone(remedy.Events), k, k+1)
					if slices.Contains(w.after(t, fewer).ask(pod).Fits, remedy.Nodes[0]) {
						fail("%s: event %d is superfluous", remedy.Text, k)
					}
				}
			case "ask":
				if remedy.MemoryMiB == 0 {
					continue // cores
				}
				if got := w.ask(capped(pod, remedy.MemoryMiB)); got.Waits() {
					fail("%s: it waits all the same: %+v", remedy.Text, got)
				}
				if !w.ask(capped(pod, remedy.MemoryMiB+1)).Waits() {
					fail("%s: 1 MiB more fits, too", remedy.Text)
				}
			case "quota":
				if report.Quotas[0].AtLeast {
					continue
				}
				s := report.Quotas[0]
				for raise, short := range map[int64]bool{s.RaiseTo: false, s.RaiseTo - 1: true} {
					raised := w
					raised.quotas = []*corev1.ResourceQuota{w.quotas[0].DeepCopy()}
					raised.quotas[0].Spec.Hard["limits.nvidia.com/gpumem"] = *resource.NewQuantity(raise,
						resource.DecimalSI)
					if got := raised.ask(pod); len(got.Quotas) > 0 != short {
						fail("%s: with %d: %+v", remedy.Text, raise, got.Quotas)
					}
				}
			case "quotaEnd":
				if report.Quotas[0].AtLeast {
					continue
				}
				if got := w.after(t, remedy.Events).ask(pod); len(got.Quotas) > 0 {
					fail("%s: %+v", remedy.Text, got.Quotas)
				}
			}
		}
	}
	for _, kind := range []string{"end", "delete", "kept", "ask", "quota", "quotaEnd"} {
		if seen[kind] < 20 {
			t.Errorf("only %d remedies of kind %s were tried", seen[kind], kind)
		}
	}
}

// TestNothingMissed: where no remedy is the end of init containers, the pod fits on no node when all have ended.
func TestNothingMissed(t *testing.T) {
	const seed = 2
	r := rand.New(rand.NewPCG(seed, 0))
	tried := 0
	for i := range 1500 {
		w, pod := random(r)
		report := w.ask(pod)
		if len(report.Fits) > 0 || slices.ContainsFunc(report.Remedies,
			func(m why.Remedy) bool { return m.Kind == "end" }) {
			continue
		}
		tried++
		steady := w
		steady.pods = nil
		for _, p := range w.pods {
			if p.Spec.NodeName != "" {
				p = progressed(p, len(p.Spec.InitContainers))
			}
			steady.pods = append(steady.pods, p)
		}
		if got := steady.ask(pod); len(got.Fits) > 0 {
			t.Fatalf("seed %d, cluster %d: it fits on %v when all init containers end: %+v", seed, i, got.Fits,
				report.Remedies)
		}
	}
	if tried < 100 {
		t.Errorf("only %d clusters were tried", tried)
	}
}

// A slip in a name explains more than all that follows from what was understood.
func TestSlips(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "slips",
		Annotations: map[string]string{"phasegpu.io/relase": "hold"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"nvidia.com/gpumen": resource.MustParse("1000")},
	}}}
	notes := strings.Join(why.Explain(why.Question{Pod: pod}).Notes, "\n")
	for _, want := range []string{"annotation phasegpu.io/relase is none", "resource nvidia.com/gpumen is none",
		"asks for no device"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q:\n%s", want, notes)
		}
	}
}
