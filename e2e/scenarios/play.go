package scenarios

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// Play is a scenario under way. Its methods act on the cluster and wait for what must come about; each tells
// the stage what it did and saw, and ends the scenario when something else happens.
type Play struct {
	Stage
	Cluster   *stack.Stack
	Namespace string

	accountant accountant
	nodes      []nodesim.Node
	shown      bool // what is reserved, after the last thing that happened
}

// Perform plays a scenario. What it created is removed when the stage is cleaned up, after the books have
// been compared with a recomputation.
func Perform(stage Stage, cluster *stack.Stack, s Scenario) {
	stage.Helper()
	s.Play(Begin(stage, cluster, fmt.Sprintf("scenario-%d", s.Number)))
}

// Begin makes the namespace of a story that is to be played.
func Begin(stage Stage, cluster *stack.Stack, namespace string) *Play {
	stage.Helper()
	p := &Play{Stage: stage, Cluster: cluster, Namespace: namespace}
	p.must(cluster.Namespace(stage.Context(), p.Namespace))
	stage.Cleanup(p.end)
	return p
}

func (p *Play) end() {
	ctx := context.WithoutCancel(p.Context())
	errs := []error{p.Cluster.AwaitAudit(ctx), p.show(ctx), p.Cluster.Clear(ctx, p.Namespace)}
	for _, n := range p.nodes {
		errs = append(errs, p.Cluster.Sim.DeleteNode(ctx, n.Name), p.Cluster.AwaitNoNode(ctx, n.Name))
	}
	errs = append(errs, p.Cluster.AwaitAudit(ctx))
	p.must(errors.Join(errs...))
}

// show shows what is reserved on the scenario's devices, unless the audience has just seen it.
func (p *Play) show(ctx context.Context) error {
	l, err := p.Cluster.Ledger(ctx)
	if err != nil {
		return err
	}
	var devices []stack.LedgerDevice
	for _, n := range p.nodes {
		for _, d := range n.Devices {
			if there := l.Device(n.Name, d.UUID); there != nil {
				devices = append(devices, *there)
			}
		}
	}
	if !p.shown && len(devices) > 0 {
		p.Tell(Event{Kind: Reserved, Text: books(devices), Devices: devices})
	}
	return nil
}

// Tell tells the stage.
func (p *Play) Tell(e Event) {
	p.Helper()
	p.shown = e.Kind == Reserved
	p.Stage.Tell(e)
}

func (p *Play) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatalf("%v", err)
	}
}

// Logf tells what happened, in words of the scenario's own.
func (p *Play) Logf(format string, args ...any) {
	p.Helper()
	p.tell(Happened, format, args...)
}

func (p *Play) tell(kind Kind, format string, args ...any) {
	p.Helper()
	p.Tell(Event{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// Node declares a node with NVIDIA GPUs "GPU-<name>-<index>" of the given memory each.
func (p *Play) Node(name string, memoryMiB ...int64) {
	p.Helper()
	var devices []device.Device
	for i, m := range memoryMiB {
		devices = append(devices, nodesim.GPUs(name, i+1, m)[i])
	}
	p.AddNode(nodesim.Node{Name: name, Devices: devices})
}

// AddNode declares any node, and waits until the extender knows it.
func (p *Play) AddNode(n nodesim.Node) {
	p.Helper()
	p.must(p.Cluster.Sim.AddNode(p.Context(), n))
	p.nodes = append(p.nodes, n)
	p.accountant.node(n)
	p.tell(Given, "node %s with %s", n.Name, cards(n.Devices))
	p.must(p.Cluster.AwaitNode(p.Context(), n.Name, n.Devices))
}

// Quota limits the namespace, and waits until that is obeyed.
func (p *Play) Quota(hard map[corev1.ResourceName]string) {
	p.Helper()
	p.accountant.quota(hard)
	p.tell(Given, "ResourceQuota \"team\": %s", limits(hard))
	p.must(p.Cluster.Quota(p.Context(), p.Namespace, "team", hard))
}

// Pod returns a pod of the scenario's namespace, not yet created.
func (p *Play) Pod(name string, containers ...stack.Container) *corev1.Pod {
	return stack.NewPod(p.Namespace, name, containers...)
}

// Submit creates a pod and returns it as admitted. It tells what a sum-of-containers accountant would have
// answered.
func (p *Play) Submit(pod *corev1.Pod) *corev1.Pod {
	p.Helper()
	created, err := p.create(pod)
	p.must(err)
	return created
}

func (p *Play) create(pod *corev1.Pod) (*corev1.Pod, error) {
	p.Helper()
	p.Tell(Event{Kind: Submitted, Text: describe(pod), Pod: pod})
	if verdict := p.accountant.asked(pod); verdict != "" {
		p.tell(Accountant, "%s", verdict)
	}
	return p.Cluster.Create(p.Context(), pod)
}

// Denied creates a pod and expects admission to refuse it with all of these words in the message.
func (p *Play) Denied(pod *corev1.Pod, words ...string) {
	p.Helper()
	_, err := p.create(pod)
	if err == nil {
		p.Fatalf("pod %s was admitted", pod.Name)
	}
	p.must(stack.Lacks(err.Error(), words...))
	p.accountant.gone(pod)
	p.Logf("%s: denied: %v", pod.Name, err)
}

// Scheduled waits until a pod has a node, and returns it.
func (p *Play) Scheduled(pod *corev1.Pod) *corev1.Pod {
	p.Helper()
	bound, err := p.Cluster.AwaitBound(p.Context(), pod)
	p.must(err)
	p.accountant.scheduled(bound)
	p.Logf("%s: scheduled on node %s, %s", pod.Name, bound.Spec.NodeName, record(bound))
	return bound
}

// Pending waits until kube-scheduler has found no node for a pod, with all of these words in its reason.
func (p *Play) Pending(pod *corev1.Pod, words ...string) {
	p.Helper()
	reason, err := p.Cluster.AwaitRefused(p.Context(), pod, words...)
	p.must(err)
	p.Logf("%s: pending: %s", pod.Name, reason)
}

// StillPending has kube-scheduler look at a pending pod again, and expects that it finds no node.
func (p *Play) StillPending(pod *corev1.Pod) {
	p.Helper()
	p.must(p.Cluster.StillPending(p.Context(), pod))
	p.Logf("%s: tried again, still pending", pod.Name)
}

// Running waits until a container runs.
func (p *Play) Running(pod *corev1.Pod, container string) {
	p.Helper()
	p.must(p.Cluster.Sim.AwaitRunning(p.Context(), pod, container))
	p.Logf("%s: %s runs", pod.Name, container)
}

// Finish ends a running container with an exit code, once it runs.
func (p *Play) Finish(pod *corev1.Pod, container string, exit int32) {
	p.Helper()
	p.must(p.Cluster.Sim.Finish(p.Context(), pod, container, exit))
	p.Logf("%s: %s exits %d", pod.Name, container, exit)
}

// Ended waits until a pod is in a phase, Succeeded or Failed.
func (p *Play) Ended(pod *corev1.Pod, phase corev1.PodPhase) {
	p.Helper()
	_, err := p.Cluster.AwaitPhase(p.Context(), pod, phase)
	p.must(err)
	p.accountant.gone(pod)
	p.Logf("%s: %s", pod.Name, phase)
}

// Report has the node report a status of a pod that is made from the present one, and waits until the
// extender has seen it.
func (p *Play) Report(pod *corev1.Pod, what string, change func(*corev1.PodStatus)) {
	p.Helper()
	now, err := p.Cluster.Pod(p.Context(), pod)
	p.must(err)
	change(&now.Status)
	p.must(p.Cluster.Sim.SetStatus(p.Context(), pod, now.Status))
	p.must(p.Cluster.AwaitSeen(p.Context(), pod))
	p.Logf("%s: %s", pod.Name, what)
}

// Holds waits until the memory reserved for a pod over all devices is as given, in MiB.
func (p *Play) Holds(pod *corev1.Pod, memoryMiB int64) {
	p.Helper()
	p.must(p.Cluster.AwaitReserved(p.Context(), pod, memoryMiB))
	p.Logf("%s: %d MiB reserved", pod.Name, memoryMiB)
}

// Unmoved expects that the books do not change at all, not even for a moment, while something happens to
// pods. It ends when the extender has seen what happened to the last of them.
func (p *Play) Unmoved(last *corev1.Pod, while func()) {
	p.Helper()
	p.must(p.Cluster.AwaitSeen(p.Context(), last))
	before, err := p.Cluster.Ledger(p.Context())
	p.must(err)
	while()
	p.must(p.Cluster.AwaitSeen(p.Context(), last))
	after, err := p.Cluster.Ledger(p.Context())
	p.must(err)
	if after.Generation != before.Generation {
		p.Fatalf("the books changed %d times:\nbefore %+v\nafter  %+v", after.Generation-before.Generation, before.Reserved(), after.Reserved())
	}
	p.Logf("%s: what is reserved never moved", last.Name)
}

// Reserved waits until so many MiB are reserved on each device of the scenario's nodes, in the order of their
// declaration, and shows them.
func (p *Play) Reserved(memoryMiB ...int64) {
	p.Helper()
	var devices []stack.LedgerDevice
	for _, n := range p.nodes {
		for _, d := range n.Devices {
			if len(devices) == len(memoryMiB) {
				p.Fatalf("this scenario has more devices than the %d expected: %v", len(memoryMiB), memoryMiB)
			}
			p.must(p.Cluster.AwaitDevice(p.Context(), d.UUID, memoryMiB[len(devices)]))
			devices = append(devices, stack.LedgerDevice{UUID: d.UUID, Family: d.Family, Capacity: stack.Amount(d.Capacity)})
			devices[len(devices)-1].Reserved.MemoryMiB = memoryMiB[len(devices)-1]
		}
	}
	p.Tell(Event{Kind: Reserved, Text: books(devices), Devices: devices})
}

// Delete deletes a pod and waits until it is gone.
func (p *Play) Delete(pod *corev1.Pod) {
	p.Helper()
	p.must(p.Cluster.Delete(p.Context(), pod))
	p.accountant.gone(pod)
	p.Logf("%s: deleted", pod.Name)
}

// Annotate changes a pod by a merge patch, as its author would, and returns the API server's answer.
func (p *Play) Annotate(pod *corev1.Pod, patch string) error {
	_, err := p.Cluster.Client.CoreV1().Pods(pod.Namespace).Patch(
		p.Context(), pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
