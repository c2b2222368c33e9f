package allocate_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/gen/await"
)

// Whatever happens between kubelet's calls, every pod that phasegpu placed gets its own, and nobody starts
// with another's: random pods one after another (as the extender's gate lets them in) with intruders whom
// the API server does not know, restarts of plugin and kubelet, and rejections half way.
func TestRandomDisturbances(t *testing.T) {
	for range 3 {
		seed := rand.Int63()
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			w := &world{node: newNode(t, 30), rand: rand.New(rand.NewSource(seed))}
			for range 40 {
				w.step()
			}
		})
	}
}

type world struct {
	*node
	rand      *rand.Rand
	number    int
	live      []*corev1.Pod
	intruders []*corev1.Pod
	dead      []string // UIDs
}

func (w *world) step() {
	w.t.Helper()
	if len(w.live) > 4 || len(w.live) > 0 && w.rand.Intn(3) == 0 {
		i := w.rand.Intn(len(w.live))
		w.end(w.live[i])
		w.live = slices.Delete(w.live, i, i+1)
	} else {
		w.place(w.pod())
	}
	for _, pod := range w.live {
		w.holds(pod)
	}
	for _, intruder := range w.intruders {
		if w.Held(string(intruder.UID), "a0") == nil {
			continue
		}
		if err := w.StartContainer(w.t.Context(), string(intruder.UID), "a0"); err == nil {
			w.t.Errorf("intruder %s may start with %s", intruder.Name, w.given(intruder, "a0"))
		}
	}
	for len(w.intruders) > 3 {
		w.kill(string(w.intruders[0].UID))
		w.intruders = w.intruders[1:]
	}
}

// pod makes up a pod with at least one device.
func (w *world) pod() *corev1.Pod {
	w.number++
	entry := func() string {
		a, b := on("G0", w.rand.Intn(9000)+1), on("G1", w.rand.Intn(9000)+1)
		return []string{"", a, b, a + b}[w.rand.Intn(4)]
	}
	var parts []part
	for range w.rand.Intn(4) {
		parts = append(parts, part{[]string{"I", "S"}[w.rand.Intn(2)], entry()})
	}
	for range w.rand.Intn(2) {
		parts = append(parts, part{"A", entry()})
	}
	return newPod(fmt.Sprint("p", w.number), append(parts, part{"A", on("G0", w.number)})...)
}

// place binds a pod and has kubelet allocate for it, amid disturbances; or reject it on the way.
func (w *world) place(pod *corev1.Pod) {
	w.t.Helper()
	w.bind(pod)
	rejectAt := w.rand.Intn(20)
	for i, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		w.disturb()
		if i == rejectAt {
			w.report(pod, corev1.PodFailed)
			w.kill(string(pod.UID))
			return
		}
		if err := w.AdmitContainer(w.t.Context(), pod, c.Name, nil); err != nil {
			w.t.Fatalf("pod %s, container %s: %v", pod.Name, c.Name, err)
		}
	}
	w.disturb()
	w.report(pod, corev1.PodRunning)
	w.live = append(w.live, pod)
}

func (w *world) disturb() {
	w.t.Helper()
	switch w.rand.Intn(8) {
	case 0:
		w.halt()
		w.startPlugin()
	case 1:
		w.Stop()
		w.startKubelet()
		await.Until(w.t, "the registration", func() bool { return len(w.Kubelet.Devices()) > 0 })
		for _, uid := range w.dead {
			w.Remove(uid)
		}
	case 2, 3:
		w.number++
		entry := on("G1", 1)
		if w.rand.Intn(2) == 0 {
			entry += on("G0", 1)
		}
		intruder := newPod(fmt.Sprint("intruder", w.number), part{"A", entry})
		_ = w.admitting(intruder) // refused, or served with what is not its own
		w.intruders = append(w.intruders, intruder)
	}
}

// end has a pod complete and be deleted.
func (w *world) end(pod *corev1.Pod) {
	w.report(pod, corev1.PodSucceeded)
	w.forget(pod)
	w.kill(string(pod.UID))
}

func (w *world) kill(uid string) {
	w.Remove(uid)
	w.dead = append(w.dead, uid)
}
