package scenarios_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/scenarios"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// records: a running pod's record becomes unreadable. Its node takes no new pods with devices and says
// why, the books of all others are kept, and everything is as before once the record is mended or its pod is over.
func records(t *testing.T, p *scenarios.Play) {
	p.AddNode(nodesim.Node{Name: "spoilt", Labels: map[string]string{"story": "spoilt"},
		Devices: nodesim.GPUs("spoilt", 1, 24576)})
	victim := p.Pod("victim", stack.App("train", stack.GPU(1, 5000)))
	victim.Spec.RestartPolicy = corev1.RestartPolicyNever
	victim = p.Submit(at("spoilt", victim))
	victim = p.Scheduled(victim)
	p.Running(victim, "train")
	neighbour := p.Submit(at("spoilt", p.Pod("neighbour", stack.Init("load", stack.GPU(1, 8000)),
		stack.App("train", stack.GPU(1, 2000)))))
	p.Scheduled(neighbour)
	p.Running(neighbour, "load")

	whole := victim.Annotations["hami.io/vgpu-devices-allocated"]
	share := strings.TrimSuffix(whole, ";")
	bad := []struct{ record, word string }{
		{"G0,abc,;", "allocation"},
		{"", "0 containers"},
		{strings.TrimSuffix(whole, ";"), "cut short"},
		{whole + ";", "2 containers"},
		{strings.Replace(whole, ":", "", 1), "cut short"},
		{share + share + ";", "twice"},
		{"GPU-spoilt-0,AMD,5000,0:;", "type"},
		{"GPU-spoilt-0,NVIDIA,-5000,0:;", "MiB"},
		{"GPU-spoilt-0,NVIDIA,5000.5,0:;", "MiB"},
		{"GPU-spoilt-0,NVIDIA,8388609,0:;", "MiB"},
		{"GPU-spoilt-0,NVIDIA,99999999999999999999,0:;", "MiB"},
		{"GPU-spoilt-0,NVIDIA,NaN,0:;", "MiB"},
		{"GPU-spoilt-0,NVIDIA,0x10,0:;", "MiB"},
		{"GPU-spoilt-0,NVIDIA,5000,101:;", "cores"},
		{"GPU-spoilt-0,NVIDIA,5000,0,7:;", "cores"},
		{",NVIDIA,5000,0:;", "UUID"},
		{"GPU\x00,NVIDIA,5000,0:;", ""},
		{"\u202eGPU-spoilt-0,NVIDIA,5000,0:;", ""},
		{strings.Repeat("A", 200_000), ""},
		{strings.Repeat(share, 4_000) + ";", ""},
		{strings.Repeat(";", 200_000), "200000 containers"},
		{`{"GPU-spoilt-0":5000}`, ""},
	}
	var newcomer *corev1.Pod
	const series = `phasegpu_node_unreadable{node="spoilt"}`
	for i, b := range bad {
		must(t, write(p, victim, b.record))
		if newcomer == nil {
			newcomer = p.Submit(at("spoilt", p.Pod("newcomer", stack.App("train", stack.GPU(1, 1000)))))
			p.Pending(newcomer, "Pods with an unreadable GPU allocation")
			p.Metric(series, "1")
		} else {
			p.StillPending(newcomer)
		}
		unreadable := p.Books().Node("spoilt").Unreadable
		if err := stack.Lacks(unreadable, p.Namespace+"/victim", "hami.io/vgpu-devices-allocated", b.word); err != nil {
			t.Errorf("record %.60q: %.400v", b.record, err)
		}
		if len(unreadable) > 1000 {
			t.Errorf("record %d: the node says %d bytes", i, len(unreadable))
		}
	}

	// The neighbour's books go on, and so does the other node.
	p.Holds(neighbour, 8000)
	p.Finish(neighbour, "load", 0)
	p.Holds(neighbour, 2000)
	p.Scheduled(p.Submit(p.Pod("elsewhere", stack.App("train", stack.GPU(1, 1000)))))

	// A quota cannot be shown to be kept, so nothing more is added to it; nor is another namespace concerned.
	must(t, p.Cluster.Namespace(p.Context(), "bad-records-2"))
	quotas := p.Cluster.Client.CoreV1().ResourceQuotas(p.Namespace)
	_, err := quotas.Create(p.Context(), quota("team", "limits.nvidia.com/gpumem", "20000"), metav1.CreateOptions{})
	must(t, err)
	p.AwaitBooks("the extender knows the quota", func(l *stack.Ledger) error {
		for _, n := range l.Namespaces {
			if n.Name == p.Namespace && len(n.Quotas) > 0 {
				return nil
			}
		}
		return errors.New("it does not list it")
	})
	limited := p.Submit(p.Pod("limited", stack.App("train", stack.GPU(1, 1000))))
	p.Pending(limited, `quota team`, p.Namespace+"/victim", "cannot be counted")
	foreign := stack.NewPod("bad-records-2", "foreign", stack.App("train", stack.GPU(1, 1000)))
	foreign = p.Submit(foreign)
	p.Scheduled(foreign)
	p.Delete(foreign)
	must(t, quotas.Delete(p.Context(), "team", metav1.DeleteOptions{}))
	p.Scheduled(limited) // by itself

	// A restart knows no better.
	must(t, p.Cluster.Extender.Kill())
	must(t, p.Cluster.Extender.Start(p.Context()))
	p.StillPending(newcomer)

	must(t, write(p, victim, whole))
	p.Scheduled(newcomer) // by itself
	p.Metric(series, "")
	p.Holds(victim, 5000)

	// What a pod that is over recorded does not matter.
	must(t, write(p, victim, "G0,abc,;"))
	late := p.Submit(at("spoilt", p.Pod("late", stack.App("train", stack.GPU(1, 1000)))))
	p.Pending(late, "Pods with an unreadable GPU allocation")
	p.Finish(victim, "train", 0)
	p.Ended(victim, corev1.PodSucceeded)
	p.Scheduled(late)
	p.Metric(series, "")
}

// write writes a record as the extender's service account, which may, and waits until the extender has seen it.
func write(p *scenarios.Play, pod *corev1.Pod, record string) error {
	config, err := p.Cluster.ServiceAccount(p.Context(), "phasegpu-system", "phasegpu-extender")
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	annotations := map[string]string{"hami.io/vgpu-devices-allocated": record}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods(pod.Namespace).Patch(p.Context(), pod.Name, types.MergePatchType, body,
		metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return p.Cluster.AwaitSeen(p.Context(), pod)
}

// inventories: a node whose inventory cannot be read is left out and reported, what runs there stays charged, and
// other nodes go on. It is back when the inventory is mended.
func inventories(t *testing.T, p *scenarios.Play) {
	const key, series = "hami.io/node-nvidia-register", `phasegpu_node_unreadable{node="sick"}`
	sick := nodesim.Node{Name: "sick", Labels: map[string]string{"story": "sick"},
		Devices: nodesim.GPUs("sick", 1, 24576)}
	p.AddNode(sick)
	there := p.Submit(at("sick", p.Pod("there", stack.Init("load", stack.GPU(1, 8000)),
		stack.App("train", stack.GPU(1, 2000)))))
	p.Scheduled(there)
	p.Running(there, "load")

	card := func(change string) string {
		return `[{"id":"GPU-sick-0","count":10,"devmem":24576,"devcore":100,"type":"NVIDIA-Simulated","health":true` +
			change + `}]`
	}
	bad := []struct{ inventory, word string }{
		{"garbage", "inventory"},
		{"", "empty"},
		{"[", "JSON"},
		{strings.TrimSuffix(card(""), "}]"), "JSON"},
		{card("") + "x", "after top-level value"},
		{`{"id":"GPU-sick-0"}`, "inventory"},
		{"null", "inventory"},
		{`["GPU-sick-0"]`, "device 0"},
		{card(`,"count":11`), "twice"},
		{card(`,"mode":"magic"`), "mode"},
		{card(`,"numa":"zero"`), "numa"},
		{card(`,"index":-1`), "index"},
		{strings.Replace(card(""), "24576", "-24576", 1), "devmem"},
		{strings.Replace(card(""), "24576", "2.5", 1), "devmem"},
		{strings.Replace(card(""), "24576", "99999999999999999999", 1), "devmem"},
		{strings.Replace(card(""), "24576", `"lots"`, 1), "devmem"},
		{strings.Replace(card(""), ":10,", ":-10,", 1), "count"},
		{strings.Replace(card(""), "true", "maybe", 1), "JSON"},
		{strings.Replace(card(""), "true", `"yes"`, 1), "health"},
		{strings.Replace(card(""), "GPU-sick-0", "", 1), "id"},
		{strings.Replace(card(""), "GPU-sick-0", "GPU;0,1:2", 1), "id"},
		{strings.TrimSuffix(card(""), "]") + "," + strings.TrimPrefix(card(""), "["), "twice"},
		{"GPU-sick-0,10,24576:", "GPU-sick-0"},
		{"GPU-sick-0,10,24576,100,T,0,true", "GPU-sick-0"},
		{strings.Repeat("[", 200_000), ""},
		{"[" + strings.Repeat(`{"id":"a"},`, 20_000) + `{}]`, ""},
		{strings.Repeat("A", 200_000), ""},
	}
	annotate := func(text string) {
		t.Helper()
		must(t, p.Cluster.Sim.AnnotateNode(p.Context(), "sick", map[string]string{key: text}))
	}
	var newcomer *corev1.Pod
	for i, b := range bad {
		annotate(b.inventory)
		p.AwaitBooks(fmt.Sprintf("node sick says what is wrong with %.60q", b.inventory), func(l *stack.Ledger) error {
			said := l.Node("sick").Unreadable
			if len(said) > 1000 {
				return fmt.Errorf("it says %d bytes", len(said))
			}
			return stack.Lacks(said, "annotation "+key, b.word)
		})
		if newcomer == nil {
			newcomer = p.Submit(at("sick", p.Pod("newcomer", stack.App("train", stack.GPU(1, 1000)))))
			p.Pending(newcomer, "Unreadable GPU inventory")
			p.Metric(series, "1")
		} else if i%5 == 0 {
			p.StillPending(newcomer)
		}
	}
	p.Holds(there, 8000)
	p.Finish(there, "load", 0)
	p.Holds(there, 2000)
	p.Scheduled(p.Submit(p.Pod("elsewhere", stack.App("train", stack.GPU(1, 1000)))))

	annotate("[]") // readable: it has none
	p.Metric(series, "")
	p.StillPending(newcomer)
	p.Pending(newcomer, "No GPU of the requested family")
	p.Holds(there, 2000)

	must(t, p.Cluster.Sim.AddNode(p.Context(), sick))
	p.Scheduled(newcomer) // by itself
	p.Running(newcomer, "train")
	p.Reserved(1000, 3000)
}
