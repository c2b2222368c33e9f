package scenarios_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/scenarios"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// devices that are unhealthy or cordoned keep their pods charged and take no more, until they are well again.
func devices(t *testing.T, p *scenarios.Play) {
	for _, c := range []struct {
		name    string
		set     func(n *nodesim.Node, device int, off bool)
		message string // of a pod that finds no device
	}{
		{"unhealthy", func(n *nodesim.Node, device int, off bool) { n.Devices[device].Healthy = !off },
			"nvidia.com/gpu"},
		{"cordoned", func(n *nodesim.Node, device int, off bool) { n.Devices[device].Cordoned = off }, "Cordoned GPUs"},
	} {
		n := nodesim.Node{Name: c.name, Labels: map[string]string{"story": c.name},
			Devices: nodesim.GPUs(c.name, 2, 24576)}
		p.AddNode(n)
		set := func(device int, off bool) {
			t.Helper()
			c.set(&n, device, off)
			must(t, p.Cluster.Sim.AddNode(p.Context(), n))
			must(t, p.Cluster.AwaitNode(p.Context(), n.Name, n.Devices))
		}
		submit := func(name string, memoryMiB int64) *corev1.Pod {
			return p.Submit(at(c.name, p.Pod(c.name+"-"+name, stack.App("train", stack.GPU(1, memoryMiB)))))
		}
		on := func(pod *corev1.Pod, device int) {
			t.Helper()
			pod = p.Scheduled(pod)
			memory := pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpumem"]
			want := fmt.Sprintf("GPU-%s-%d,NVIDIA,%s,0:;", c.name, device, memory.String())
			if got := pod.Annotations["hami.io/vgpu-devices-allocated"]; got != want {
				t.Errorf("%s: record %q, want %q", pod.Name, got, want)
			}
		}
		first := submit("first", 1001)
		on(first, 0) // packed
		set(0, true)
		p.Holds(first, 1001)
		second := submit("second", 4001)
		on(second, 1)
		third := submit("third", 21001)
		p.Pending(third, "Insufficient GPU memory") // beside 4001
		p.StillPending(third)
		set(0, false)
		on(third, 0) // by itself
		set(0, true)
		set(1, true)
		fourth := submit("fourth", 1)
		p.Pending(fourth, c.message)
		p.Holds(first, 1001)
		p.Holds(second, 4001)
		p.Delete(fourth)
		set(0, false)
		set(1, false)
		on(submit("fifth", 20001), 1)
		for _, pod := range []*corev1.Pod{first, second, third} {
			p.Running(pod, "train")
		}
	}
}

// nodeGone: a node is deleted and registers again, with a device less and then with all. What its pods
// hold is charged all the while.
func nodeGone(t *testing.T, p *scenarios.Play) {
	full := nodesim.Node{Name: "lost", Labels: map[string]string{"story": "lost"},
		Devices: nodesim.GPUs("lost", 2, 24576)}
	p.AddNode(full)
	var pods []*corev1.Pod
	for i := range 2 { // one on each
		pod := p.Submit(at("lost", p.Pod(fmt.Sprintf("pod-%d", i), stack.Init("load", stack.GPU(1, 20000)),
			stack.App("train", stack.GPU(1, 13000)))))
		p.Scheduled(pod)
		p.Running(pod, "load")
		pods = append(pods, pod)
	}
	reserved := func(first, second int64) {
		t.Helper()
		want := map[string]int64{"lost/GPU-lost-0": first, "lost/GPU-lost-1": second}
		p.AwaitBooks(fmt.Sprintf("reserved is %v", want), func(l *stack.Ledger) error {
			for key, memory := range want {
				if got := l.Reserved()[key].MemoryMiB; got != memory {
					return fmt.Errorf("%s has %d MiB", key, got)
				}
			}
			return nil
		})
	}
	reserved(20000, 20000)

	must(t, p.Cluster.Sim.DeleteNode(p.Context(), "lost"))
	p.AwaitBooks("the extender knows that the node is gone", func(l *stack.Ledger) error {
		if l.Node("lost").Known {
			return fmt.Errorf("it is known")
		}
		return nil
	})
	reserved(20000, 20000)
	p.Finish(pods[0], "load", 0) // its kubelet lives on
	reserved(13000, 20000)
	must(t, p.Cluster.Extender.Kill())
	must(t, p.Cluster.Extender.Start(p.Context()))
	reserved(13000, 20000)

	less := full
	less.Devices = full.Devices[:1]
	must(t, p.Cluster.Sim.AddNode(p.Context(), less))
	must(t, p.Cluster.AwaitNode(p.Context(), "lost", less.Devices))
	reserved(13000, 20000)
	if missing := p.Books().Node("lost").Missing; len(missing) != 1 || missing[0].UUID != "GPU-lost-1" ||
		missing[0].Reserved.MemoryMiB != 20000 {
		t.Errorf("missing is %+v, want GPU-lost-1 with 20000 MiB", missing)
	}
	newcomer := p.Submit(at("lost", p.Pod("newcomer", stack.App("train", stack.GPU(1, 11577)))))
	p.Pending(newcomer, "Insufficient GPU memory") // 11576 are free

	must(t, p.Cluster.Sim.AddNode(p.Context(), full))
	must(t, p.Cluster.AwaitNode(p.Context(), "lost", full.Devices))
	reserved(13000, 20000)
	if missing := p.Books().Node("lost").Missing; len(missing) != 0 {
		t.Errorf("missing is %+v, want none", missing)
	}
	p.StillPending(newcomer)
	p.Delete(pods[1])
	p.Scheduled(newcomer)
	reserved(13000, 11577)
}
