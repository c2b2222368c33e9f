package scenarios_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/scenarios"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestPreemption: kube-scheduler evicts pods for the CPU that another lacks, where the extender approves.
func TestPreemption(t *testing.T) {
	s := stack.StartT(t, stack.Options{})
	for name, value := range map[string]int32{"low": 1, "middle": 10, "high": 1000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		_, err := s.Client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{})
		must(t, err)
	}
	for name, play := range map[string]func(*testing.T, *scenarios.Play){
		"a node that stays full is spared":     sparesFullNode,
		"a pod is not evicted for a full card": sparesForFullCard,
	} {
		t.Run(name, func(t *testing.T) {
			p := scenarios.Begin(stage{t}, s, "preemption")
			play(t, p)
		})
	}
}

// sparesFullNode: both nodes lack the CPU. kube-scheduler would rather evict from the node "taken", whose pod is the
// less important; but there the card stays full, so its pod stays.
func sparesFullNode(t *testing.T, p *scenarios.Play) {
	for _, name := range []string{"taken", "open"} {
		p.AddNode(nodesim.Node{Name: name, Labels: map[string]string{"story": name}, CPU: "4",
			Devices: nodesim.GPUs(name, 1, 24576)})
	}
	p.Running(p.Scheduled(p.Submit(class("high",
		at("taken", p.Pod("holder", stack.App("train", stack.GPU(1, 20480))))))), "train")
	spared := p.Scheduled(p.Submit(class("low", at("taken", cpu(p.Pod("spared", stack.App("web")))))))
	evicted := p.Scheduled(p.Submit(class("middle", at("open", cpu(p.Pod("evicted", stack.App("web")))))))

	first := p.Submit(class("high", at("taken", cpu(p.Pod("first", stack.App("train", stack.GPU(1, 12288)))))))
	p.Pending(first, "Insufficient cpu", "no candidate node for preemption")
	second := p.Submit(class("high", cpu(p.Pod("second", stack.App("train", stack.GPU(1, 12288))))))
	if bound := p.Scheduled(second); bound.Spec.NodeName != "open" {
		t.Errorf("it is on node %s", bound.Spec.NodeName)
	}
	must(t, p.Cluster.AwaitGone(p.Context(), evicted))
	stays(t, p, spared)
	for _, pod := range []*corev1.Pod{first, second, spared} {
		p.Delete(pod)
	}
}

// sparesForFullCard: kube-scheduler would evict for the CPU alone, but others hold the card too. The extender names no
// victims of its own, so no pod is evicted until the card has room; then the pod gets its CPU by preemption.
func sparesForFullCard(t *testing.T, p *scenarios.Play) {
	p.AddNode(nodesim.Node{Name: "one", Labels: map[string]string{"story": "one"}, CPU: "4",
		Devices: nodesim.GPUs("one", 1, 24576)})
	holder := p.Submit(class("low", at("one", p.Pod("holder", stack.App("train", stack.GPU(1, 20480))))))
	p.Running(p.Scheduled(holder), "train")
	web := p.Scheduled(p.Submit(class("low", at("one", cpu(p.Pod("web", stack.App("web")))))))

	submit := func() *corev1.Pod {
		pod := p.Pod("high", stack.Init("load", stack.GPU(1, 8192)), stack.App("train", stack.GPU(1, 4096)))
		return p.Submit(class("high", at("one", cpu(pod))))
	}
	pod := submit()
	p.Pending(pod, "Insufficient cpu", "no candidate node for preemption")
	stays(t, p, web)
	stays(t, p, holder)
	p.Delete(holder)
	// kube-scheduler does not try a pod again that lacks CPU when a card becomes free, before its flush after minutes.
	p.Delete(pod)
	pod = submit()
	p.Running(p.Scheduled(pod), "load")
	must(t, p.Cluster.AwaitGone(p.Context(), web))
	p.Delete(pod)
}

func class(priority string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.PriorityClassName, pod.Spec.SchedulerName = priority, stack.SchedulerName
	return pod
}

// cpu has the first app of a pod ask for most of a node's CPU.
func cpu(pod *corev1.Pod) *corev1.Pod {
	r := &pod.Spec.Containers[0].Resources
	r.Requests = corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("3")}
	return pod
}

// stays expects that a pod has not been evicted.
func stays(t *testing.T, p *scenarios.Play, pod *corev1.Pod) {
	t.Helper()
	if there := p.Get(pod); there.DeletionTimestamp != nil {
		t.Errorf("%s: deleted at %v", pod.Name, there.DeletionTimestamp)
	}
}
