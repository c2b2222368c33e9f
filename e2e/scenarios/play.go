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

// Play is a scenario under way. Its methods act on the cluster and wait for what must come about; each shows on the
// stage what it did and saw, and ends the scenario when something else happens.
type Play struct {
	Stage
	*stack.Driver
	Cluster *stack.Stack

	accountant accountant
	nodes      []nodesim.Node
	shown      bool // the last event showed what is reserved
}

// Perform plays a scenario. What it created is removed when the stage is cleaned up, after the books have
// been compared with a recomputation.
func Perform(stage Stage, cluster *stack.Stack, s Scenario) {
	stage.Helper()
	s.Play(Begin(stage, cluster, fmt.Sprintf("scenario-%d", s.Number)))
}

// Begin makes the namespace of a scenario.
func Begin(stage Stage, cluster *stack.Stack, namespace string) *Play {
	stage.Helper()
	p := &Play{Stage: stage, Cluster: cluster}
	p.Driver = &stack.Driver{T: p, On: &cluster.Cluster, Containers: cluster.Sim, Namespace: namespace}
	p.Must(cluster.Namespace(stage.Context(), namespace))
	stage.Cleanup(p.end)
	return p
}

func (p *Play) end() {
	ctx := context.WithoutCancel(p.Context())
	errs := []error{p.Cluster.AwaitAudit(ctx), p.showBooks(ctx), p.Cluster.Clear(ctx, p.Namespace)}
	for _, n := range p.nodes {
		errs = append(errs, p.Cluster.Sim.DeleteNode(ctx, n.Name), p.Cluster.AwaitNoNode(ctx, n.Name))
	}
	errs = append(errs, p.Cluster.AwaitAudit(ctx))
	p.Must(errors.Join(errs...))
}

// showBooks shows what is reserved on the scenario's devices, unless the last event did.
func (p *Play) showBooks(ctx context.Context) error {
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
		p.Show(Event{Kind: Reserved, Text: books(devices), Devices: devices})
	}
	return nil
}

// Show shows an event on the stage.
func (p *Play) Show(e Event) {
	p.Helper()
	p.shown = e.Kind == Reserved
	p.Stage.Show(e)
}

// Logf shows what happened.
func (p *Play) Logf(format string, args ...any) {
	p.Helper()
	p.show(Happened, format, args...)
}

func (p *Play) show(kind Kind, format string, args ...any) {
	p.Helper()
	p.Show(Event{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// Node adds a node with NVIDIA GPUs "GPU-<name>-<index>" of the given memory each.
func (p *Play) Node(name string, memoryMiB ...int64) {
	p.Helper()
	var devices []device.Device
	for i, m := range memoryMiB {
		devices = append(devices, nodesim.GPUs(name, i+1, m)[i])
	}
	p.AddNode(nodesim.Node{Name: name, Devices: devices})
}

// AddNode adds any node, and waits until the extender knows it.
func (p *Play) AddNode(n nodesim.Node) {
	p.Helper()
	p.Must(p.Cluster.Sim.AddNode(p.Context(), n))
	p.nodes = append(p.nodes, n)
	p.accountant.node(n)
	p.show(Given, "node %s with %s", n.Name, cards(n.Devices))
	p.Must(p.Cluster.AwaitNode(p.Context(), n.Name, n.Devices))
}

// Quota limits the namespace, and waits until that is obeyed.
func (p *Play) Quota(hard map[corev1.ResourceName]string) {
	p.Helper()
	p.accountant.quota(hard)
	p.addQuota("team", hard)
}

func (p *Play) addQuota(name string, hard map[corev1.ResourceName]string) {
	p.Helper()
	p.show(Given, "ResourceQuota %q: %s", name, limits(hard))
	p.Must(p.Cluster.Quota(p.Context(), p.Namespace, name, hard))
}

// Submit creates a pod and returns it as it was admitted. It shows what an accountant would have answered who adds up
// the containers.
func (p *Play) Submit(pod *corev1.Pod) *corev1.Pod {
	p.Helper()
	created, err := p.create(pod)
	p.Must(err)
	return created
}

func (p *Play) create(pod *corev1.Pod) (*corev1.Pod, error) {
	p.Helper()
	p.Show(Event{Kind: Submitted, Text: describe(pod), Pod: pod})
	if verdict := p.accountant.asked(pod); verdict != "" {
		p.show(Accountant, "%s", verdict)
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
	p.Must(stack.Lacks(err.Error(), words...))
	p.accountant.gone(pod)
	p.Logf("%s: denied: %v", pod.Name, err)
}

// Scheduled waits until a pod has a node, and returns it.
func (p *Play) Scheduled(pod *corev1.Pod) *corev1.Pod {
	p.Helper()
	bound := p.Driver.Scheduled(pod)
	p.accountant.scheduled(bound)
	return bound
}

// Ended waits until a pod is in a phase, Succeeded or Failed.
func (p *Play) Ended(pod *corev1.Pod, phase corev1.PodPhase) {
	p.Helper()
	p.Driver.Ended(pod, phase)
	p.accountant.gone(pod)
}

// Delete deletes a pod and waits until it is gone.
func (p *Play) Delete(pod *corev1.Pod) {
	p.Helper()
	p.Driver.Delete(pod)
	p.accountant.gone(pod)
}

// Report has the node report a status of a pod that is made from the present one, and waits until the
// extender has seen it.
func (p *Play) Report(pod *corev1.Pod, what string, change func(*corev1.PodStatus)) {
	p.Helper()
	now := p.Get(pod)
	change(&now.Status)
	p.Must(p.Cluster.Sim.SetStatus(p.Context(), pod, now.Status))
	p.Must(p.Cluster.AwaitSeen(p.Context(), pod))
	p.Logf("%s: %s", pod.Name, what)
}

// Reserved waits until so many MiB are reserved on each device of the scenario's nodes, in the order in which they were
// added, and shows them.
func (p *Play) Reserved(memoryMiB ...int64) {
	p.Helper()
	var devices []stack.LedgerDevice
	for _, n := range p.nodes {
		for _, d := range n.Devices {
			if len(devices) == len(memoryMiB) {
				p.Fatalf("this scenario has more devices than the %d expected: %v", len(memoryMiB), memoryMiB)
			}
			p.Must(p.Cluster.AwaitDevice(p.Context(), d.UUID, memoryMiB[len(devices)]))
			devices = append(devices, stack.LedgerDevice{UUID: d.UUID, Family: d.Family,
				Capacity: stack.Amount(d.Capacity)})
			devices[len(devices)-1].Reserved.MemoryMiB = memoryMiB[len(devices)-1]
		}
	}
	p.Show(Event{Kind: Reserved, Text: books(devices), Devices: devices})
}

// Patch changes a pod by a merge patch, as its author would, and returns the API server's answer.
func (p *Play) Patch(pod *corev1.Pod, patch string) error {
	_, err := p.Cluster.Client.CoreV1().Pods(pod.Namespace).Patch(
		p.Context(), pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// Metric waits until a series of the extender has a value, or, for "", is not there.
func (p *Play) Metric(series, value string) {
	p.Helper()
	p.Eventually(fmt.Sprintf("metric %s is %q", series, value), func(ctx context.Context) error {
		all, err := p.Cluster.ExtenderMetrics(ctx)
		if err != nil {
			return err
		}
		if got, _ := stack.Metric(all, series); got != value {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	p.Logf("metric %s is %q", series, value)
}
