package allocate_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/isolation"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/kubelet"
)

// admitting is n.Admit without a NUMA node.
func (n *node) admitting(pod *corev1.Pod) error { return n.Admit(context.Background(), pod, nil) }

func TestNobodyIsPending(t *testing.T) {
	n := newNode(t, 4)
	static := newPod("static", part{"A", on("G0", 1000)}) // bind is not called: the API server knows no such pod
	refused(t, n.admitting(static), "no pod with a record", "on node n1")

	// Neither does a pod wait that kubelet has reported on, or that has ended.
	running, ended := newPod("running", part{"A", on("G0", 1000)}), newPod("ended", part{"A", on("G0", 1000)})
	n.bind(running, ended)
	n.report(running, corev1.PodPending)
	ended.Status.Phase = corev1.PodFailed
	refused(t, n.admitting(static), "no pod with a record")
}

func TestAPodWithoutReadableRecordIsPending(t *testing.T) {
	n := newNode(t, 4)
	foreign := newPod("foreign", part{"A", on("G0", 1000)})
	delete(foreign.Annotations, record)
	n.bind(foreign, newPod("good", part{"A", on("G0", 1000)}))
	refused(t, n.admitting(foreign), "pod team/foreign", "no record of its devices")

	n = newNode(t, 4)
	broken := newPod("broken", part{"A", on("G0", 1000)})
	broken.Annotations[record] = "G0,NVIDIA,abc,0:;"
	n.bind(broken)
	refused(t, n.admitting(broken), "pod team/broken", "cannot be read", "abc")
}

// Pods of the same shape with other limits are different.
func TestDifferentPodsArePending(t *testing.T) {
	n := newNode(t, 4)
	a, b := newPod("a", part{"A", on("G0", 1000)}), newPod("b", part{"A", on("G0", 3000)})
	n.bind(a, b)
	refused(t, n.admitting(b), "several pods with different devices", "pod team/a, container a0",
		"pod team/b, container a0")
}

// Identical pods may come in any order; each container's cache is its own all the same.
func TestIdenticalPodsArePending(t *testing.T) {
	parts := []part{{"I", on("G0", 3000)}, {"A", on("G1", 1000)}}
	n := newNode(t, 4)
	a, b, c := newPod("a", parts...), newPod("b", parts...), newPod("c", parts...)
	n.bind(a, b, c)
	caches := map[string]bool{}
	for _, pod := range []*corev1.Pod{c, a, b} {
		must(t, n.admitting(pod))
	}
	for _, pod := range []*corev1.Pod{a, b, c} {
		n.holds(pod)
		for _, container := range []string{"i0", "a1"} {
			for _, m := range n.Held(string(pod.UID), container).Answer.Mounts {
				if m.ContainerPath != "/usr/local/vgpu/cache" {
					continue
				}
				if _, err := os.Stat(m.HostPath); err != nil || caches[m.HostPath] {
					t.Errorf("pod %s, container %s: cache %s is missing or another's (%v)", pod.Name, container,
						m.HostPath, err)
				}
				caches[m.HostPath] = true
			}
		}
	}
	if len(caches) != 6 {
		t.Errorf("%d caches for 6 containers", len(caches))
	}
}

// Kubelet allocates late for a pod that was deleted by force. The pod may get the next pod's devices, but does not
// start with them, and the next pod gets its own.
func TestForceDeletedPod(t *testing.T) {
	n := newNode(t, 4)
	late := newPod("late", part{"A", on("G0", 1000)})
	n.bind(late)
	n.forget(late)
	next := newPod("next", part{"I", on("G0", 2000)}, part{"A", on("G1", 3000)})
	n.bind(next)
	must(t, n.admitting(late))
	refused(t, n.StartContainer(t.Context(), "late", "a0"), "pod UID late", "meant for", "next/i0", "delete the pod")
	must(t, n.admitting(next))
	n.holds(next)
	refused(t, n.StartContainer(t.Context(), "late", "a0"), "meant for")
}

// The same in the middle of a pod, by a static pod.
func TestStaticPodBetweenTwoContainers(t *testing.T) {
	n := newNode(t, 4)
	pod, static := newPod("pod", part{"I", on("G0", 2000)}, part{"A", on("G1", 3000)}),
		newPod("static", part{"A", on("G0", 1)})
	n.bind(pod)
	must(t, n.AdmitContainer(t.Context(), pod, "i0", nil))
	must(t, n.admitting(static))
	refused(t, n.StartContainer(t.Context(), "static", "a0"), "meant for", "pod/a1")
	must(t, n.AdmitContainer(t.Context(), pod, "a1", nil))
	n.holds(pod)
}

// Kubelet may reject a pod after Allocate; the next pod's calls are its own.
func TestRejectedAfterAllocate(t *testing.T) {
	n := newNode(t, 4)
	rejected := newPod("rejected", part{"I", on("G0", 1000)}, part{"A", on("G1", 2000)})
	n.bind(rejected)
	must(t, n.AdmitContainer(t.Context(), rejected, "i0", nil))
	n.Remove("rejected")
	n.report(rejected, corev1.PodFailed)
	n.admit(newPod("next", part{"A", on("G0", 3000)}), nil)
}

// Killed between two calls of a pod, a new plugin goes on with the right container.
func TestPluginRestartsBetweenTwoContainers(t *testing.T) {
	n := newNode(t, 4)
	pod := newPod("p", part{"I", on("G0", 1000)}, part{"S", on("G1", 2000)}, part{"A", on("G0", 3000)})
	n.bind(pod)
	for _, container := range []string{"i0", "s1", "a2"} {
		must(t, n.AdmitContainer(t.Context(), pod, container, nil))
		n.halt()
		if container == "i0" {
			if err := n.AdmitContainer(t.Context(), pod, "s1", nil); err == nil {
				t.Error("allocated without a plugin")
			}
		}
		n.startPlugin()
	}
	n.holds(pod)
}

// Kubelet restarts and knows its checkpoint: no container is allocated for twice.
func TestKubeletRestartsBetweenTwoContainers(t *testing.T) {
	n := newNode(t, 4)
	pod := newPod("p", part{"S", on("G0", 1000)}, part{"A", on("G1", 2000)})
	n.bind(pod)
	must(t, n.AdmitContainer(t.Context(), pod, "s0", nil))
	n.restartKubelet()
	must(t, n.admitting(pod))
	n.holds(pod)
	if calls := n.Calls(); len(calls) != 2 {
		t.Errorf("calls %v, want one GPA and one Allocate", calls)
	}
}

// A container restarts while the API server is away; nothing is allocated meanwhile.
func TestAPIServerIsAway(t *testing.T) {
	n := newNode(t, 4)
	pod := newPod("p", part{"A", on("G0", 1000)})
	n.admit(pod, nil)
	n.mu.Lock()
	n.down = errors.New("connection refused")
	n.mu.Unlock()
	if err := n.StartContainer(t.Context(), "p", "a0"); err != nil {
		t.Errorf("the container may not restart: %v", err)
	}
	refused(t, n.admitting(newPod("q", part{"A", on("G0", 1000)})), "reading the pods of node n1", "connection refused")
}

// A busy API server does not answer when kubelet asks which ids are preferred. That is no reason to reject the
// pod: Allocate reads again.
func TestPreferenceIsNotNeeded(t *testing.T) {
	n := newNode(t, 4)
	pod := newPod("p", part{"A", on("G1", 1000)})
	n.bind(pod)
	n.mu.Lock()
	n.lost = 1
	n.mu.Unlock()
	must(t, n.admitting(pod))
	n.holds(pod)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost != 0 || !slices.Equal(n.problems, []string{"pods"}) {
		t.Errorf("%d requests were not made, and problems are about %v, want pods", n.lost, n.problems)
	}
}

func TestDevicesThatCannotBeServed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*device.Device)
		says   string
	}{
		"unhealthy": {func(d *device.Device) { d.Healthy = false }, "device G0 is unhealthy"},
		"MIG":       {func(d *device.Device) { d.Mode = device.MIG }, "device G0 is in MIG mode"},
		"gone":      {func(d *device.Device) { d.UUID = "G9" }, "device G0 is not in this node's inventory"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, 4)
			devices, _, _ := n.devices.Get()
			devices = slices.Clone(devices)
			c.change(&devices[0])
			n.devices.Set(devices)
			pod := newPod("p", part{"A", on("G0", 1000)})
			n.bind(pod)
			refused(t, n.admitting(pod), "pod team/p, container a0", c.says)
			// The other card goes on.
			n.report(pod, corev1.PodFailed)
			n.admit(newPod("q", part{"A", on("G1", 1000)}), nil)
		})
	}
}

func TestUnknownCheckpoint(t *testing.T) {
	n := newNode(t, 4)
	pod := newPod("p", part{"A", on("G0", 1000)})
	n.admit(pod, nil)
	must(t, os.WriteFile(filepath.Join(n.dir, "kubelet_internal_checkpoint"), []byte(`{"version":"v9"}`), 0o600))
	n.bind(newPod("q", part{"A", on("G0", 1000)}))
	refused(t, n.admitting(newPod("q", part{"A", on("G0", 1000)})), "unknown format")
	refused(t, n.StartContainer(t.Context(), "p", "a0"), "unknown format")
}

// foreign has the checkpoint of another device plugin.
type foreign struct {
	state
	entries []kubelet.Entry
}

func (f foreign) Checkpoint() ([]kubelet.Entry, error) { return f.entries, nil }

// What another device plugin allocated is not accepted.
func TestAnotherPluginsContainer(t *testing.T) {
	n := newNode(t, 4)
	n.admit(newPod("p", part{"A", on("G0", 1000)}), nil)
	entries, err := state{n}.Checkpoint()
	must(t, err)
	delete(entries[0].Response.Annotations, "phasegpu.io/entry")
	a := n.allocator()
	a.State = foreign{state{n}, entries}
	refused(t, a.PreStart(t.Context(), entries[0].IDs), "container a0", "another device plugin")
	refused(t, a.PreStart(t.Context(), []string{"G9::0"}), "knows no container")
}

// stubborn cannot remove what is left behind.
type stubborn struct{ isolation.None }

func (stubborn) Sweep([]*pluginapi.ContainerAllocateResponse) error { return errors.New("not empty") }

// kept keeps a problem.
type kept struct {
	state
	err error
}

func (p *kept) Problem(_ string, err error) { p.err = err }

// A container that leaves a folder that cannot be removed does not keep others from starting.
func TestWhatCannotBeRemovedIsTold(t *testing.T) {
	n := newNode(t, 4)
	n.bind(newPod("p", part{"A", on("G0", 1000)}))
	a, p := n.allocator(), &kept{state: state{n}}
	a.Isolation, a.State = stubborn{}, p
	if _, err := a.Allocate(t.Context(), []string{"G0::0"}); err != nil || p.err == nil {
		t.Errorf("error %v, problem %v", err, p.err)
	}
}

// A node that has lost the library would start containers that are held to nothing.
func TestIsolationIsGone(t *testing.T) {
	n := newNode(t, 4)
	must(t, os.Remove(filepath.Join(n.dir, "libvgpu.so")))
	pod := newPod("p", part{"A", on("G0", 1000)})
	n.bind(pod)
	refused(t, n.admitting(pod), "pod team/p, container a0", "libvgpu.so")
}
