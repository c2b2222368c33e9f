package allocate_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Whatever happens between kubelet's calls, every pod that phasegpu placed gets its own devices, and no container
// starts with another's: random pods one after another (as the extender's gate admits them), with intruders that the
// API server does not know, restarts of plugin and kubelet, and rejections half way.
func TestRandomDisturbances(t *testing.T) {
	for range 3 {
		seed := rand.Int63()
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			d := &disturbed{node: newNode(t, 30), rand: rand.New(rand.NewSource(seed))}
			for range 40 {
				d.step()
			}
		})
	}
}

// disturbed is a node on which a plugin and kubelet restart and pods come that the API server does not know.
type disturbed struct {
	*node
	rand      *rand.Rand
	number    int
	live      []*corev1.Pod
	intruders []*corev1.Pod
	dead      []string // UIDs
}

func (d *disturbed) step() {
	d.t.Helper()
	if len(d.live) > 4 || len(d.live) > 0 && d.rand.Intn(3) == 0 {
		i := d.rand.Intn(len(d.live))
		d.end(d.live[i])
		d.live = slices.Delete(d.live, i, i+1)
	} else {
		d.place(d.pod())
	}
	for _, pod := range d.live {
		d.holds(pod)
	}
	for _, intruder := range d.intruders {
		if d.Held(string(intruder.UID), "a0") == nil {
			continue
		}
		if err := d.StartContainer(d.t.Context(), string(intruder.UID), "a0"); err == nil {
			d.t.Errorf("intruder %s may start with %s", intruder.Name, d.given(intruder, "a0"))
		}
	}
	for len(d.intruders) > 3 {
		d.kill(string(d.intruders[0].UID))
		d.intruders = d.intruders[1:]
	}
}

// pod makes up a pod with at least one device.
func (d *disturbed) pod() *corev1.Pod {
	d.number++
	entry := func() string {
		a, b := on("G0", d.rand.Intn(9000)+1), on("G1", d.rand.Intn(9000)+1)
		return []string{"", a, b, a + b}[d.rand.Intn(4)]
	}
	var parts []part
	for range d.rand.Intn(4) {
		parts = append(parts, part{[]string{"I", "S"}[d.rand.Intn(2)], entry()})
	}
	for range d.rand.Intn(2) {
		parts = append(parts, part{"A", entry()})
	}
	return newPod(fmt.Sprint("p", d.number), append(parts, part{"A", on("G0", d.number)})...)
}

// place binds a pod and has kubelet allocate for it, amid disturbances; or reject it on the way.
func (d *disturbed) place(pod *corev1.Pod) {
	d.t.Helper()
	d.bind(pod)
	rejectAt := d.rand.Intn(20)
	for i, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		d.disturb()
		if i == rejectAt {
			d.report(pod, corev1.PodFailed)
			d.kill(string(pod.UID))
			return
		}
		if err := d.AdmitContainer(d.t.Context(), pod, c.Name, nil); err != nil {
			d.t.Fatalf("pod %s, container %s: %v", pod.Name, c.Name, err)
		}
	}
	d.disturb()
	d.report(pod, corev1.PodRunning)
	d.live = append(d.live, pod)
}

func (d *disturbed) disturb() {
	d.t.Helper()
	switch d.rand.Intn(8) {
	case 0:
		d.restartPlugin()
	case 1:
		d.restartKubelet()
		for _, uid := range d.dead {
			d.Remove(uid)
		}
	case 2, 3:
		d.number++
		entry := on("G1", 1)
		if d.rand.Intn(2) == 0 {
			entry += on("G0", 1)
		}
		intruder := newPod(fmt.Sprint("intruder", d.number), part{"A", entry})
		_ = d.admitting(intruder) // refused, or served another pod's devices
		d.intruders = append(d.intruders, intruder)
	}
}

// end has a pod complete and be deleted.
func (d *disturbed) end(pod *corev1.Pod) {
	d.report(pod, corev1.PodSucceeded)
	d.forget(pod)
	d.kill(string(pod.UID))
}

func (d *disturbed) kill(uid string) {
	d.Remove(uid)
	d.dead = append(d.dead, uid)
}
