package allocate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/allocate"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/fakekubelet"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/inventory"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/isolation"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/kubelet"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/refitclient"
	"github.com/phasegpu/phasegpu/gen/await"
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
)

const (
	gpus   = "nvidia.com/gpu"
	record = rt.Record
)

// node is a fake kubelet, the plugin on its sockets, and an API server with pods.
type node struct {
	*fakekubelet.Kubelet
	t       *testing.T
	dir     string
	devices *inventory.Current
	halt    func()              // stops the plugin
	client  *refitclient.Client // of plugins that are started from now on, nil for none

	mu       sync.Mutex
	pods     []*corev1.Pod
	down     error    // the API server's answer
	lost     int      // of so many requests the answer is lost
	problems []string // their subjects
}

// newNode has one card G0 on NUMA node 0 and one card G1 on NUMA node 1, with the given replicas each.
func newNode(t *testing.T, replicas int) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "node") // a socket's path is short
	must(t, err)
	for _, name := range []string{"libvgpu.so", "ld.so.preload"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	n := &node{t: t, dir: dir, devices: &inventory.Current{}}
	shape := inventory.Shape{Replicas: replicas, MemoryScaling: 1}
	devices, err := shape.Devices([]inventory.Card{
		{UUID: "G0", Index: 0, MemoryMiB: 24576, NUMA: 0, Healthy: true},
		{UUID: "G1", Index: 1, MemoryMiB: 24576, NUMA: 1, Healthy: true},
	})
	must(t, err)
	n.devices.Set(devices)
	n.startKubelet()
	n.startPlugin()
	t.Cleanup(func() {
		n.halt()
		n.Stop()
		_ = os.RemoveAll(dir)
	})
	return n
}

func (n *node) startKubelet() {
	n.t.Helper()
	var err error
	if n.Kubelet, err = fakekubelet.New(n.dir, gpus); err != nil {
		n.t.Fatal(err)
	}
}

// restartKubelet starts a kubelet that has the checkpoint of the one before.
func (n *node) restartKubelet() {
	n.t.Helper()
	n.Stop()
	n.startKubelet()
	await.Until(n.t, "the registration", func() bool { return len(n.Kubelet.Devices()) > 0 })
}

// startPlugin starts a plugin that knows nothing of an earlier one, and waits until kubelet has its list.
func (n *node) startPlugin() {
	n.t.Helper()
	before := n.Registrations()
	server := &kubelet.Server{
		Dir: n.dir, Socket: "phasegpu.sock", Resource: gpus, Observer: state{n},
		Plugin: &kubelet.Plugin{Devices: n.devices, Allocator: n.allocator()},
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	n.halt = func() {
		end()
		if err := <-done; err != nil {
			n.t.Errorf("plugin: %v", err)
		}
		done <- nil // it may be stopped again
	}
	await.Until(n.t, "the registration", func() bool {
		return n.Registrations() > before &&
			len(n.Kubelet.Devices()) > 0
	})
}

func (n *node) restartPlugin() {
	n.t.Helper()
	n.halt()
	n.startPlugin()
}

func (n *node) allocator() *allocate.Allocator {
	a := &allocate.Allocator{Node: "n1", Resource: gpus, State: state{n}, Isolation: isolation.HAMiCore{Dir: n.dir}}
	if n.client != nil {
		a.Refit = n.client
	}
	return a
}

// state is the allocator's view of a node.
type state struct{ *node }

func (s state) Pods(context.Context) ([]corev1.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost > 0 {
		s.lost--
		return nil, context.DeadlineExceeded
	}
	var all []corev1.Pod
	for _, p := range s.pods {
		all = append(all, *p.DeepCopy())
	}
	return all, s.down
}

func (s state) Checkpoint() ([]kubelet.Entry, error) {
	return kubelet.ReadCheckpoint(filepath.Join(s.dir, kubelet.CheckpointFile), gpus)
}

func (s state) Devices() []device.Device {
	devices, _, _ := s.devices.Get()
	return devices
}

func (s state) Problem(about string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problems = append(s.problems, about); about != "pods" {
		s.t.Errorf("%s: %v", about, err)
	}
}

func (s state) Registered(error) {}

// drifts checks the drift.
func (n *node) drifts(want allocate.Drift) {
	n.t.Helper()
	pods, _ := state{n}.Pods(n.t.Context())
	entries, err := state{n}.Checkpoint()
	must(n.t, err)
	if diff := cmp.Diff(want, n.allocator().Drift(pods, entries)); diff != "" {
		n.t.Errorf("drift (-want +got):\n%s", diff)
	}
}

// bind adds pods to the API server.
func (n *node) bind(pods ...*corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = append(n.pods, pods...)
}

// forget removes a pod from the API server (deleted by force).
func (n *node) forget(pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = slices.DeleteFunc(n.pods, func(p *corev1.Pod) bool { return p.UID == pod.UID })
}

// report is kubelet's first status report on a pod.
func (n *node) report(pod *corev1.Pod, phase corev1.PodPhase) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := metav1.Now()
	pod.Status.Phase, pod.Status.StartTime = phase, &now
}

// admit binds a pod, has kubelet allocate for all of it, and report on it.
func (n *node) admit(pod *corev1.Pod, near map[string]int) {
	n.t.Helper()
	n.bind(pod)
	if err := n.Admit(n.t.Context(), pod, near); err != nil {
		n.t.Fatalf("pod %s was rejected: %v", pod.Name, err)
	}
	n.report(pod, corev1.PodRunning)
	n.holds(pod)
}

// holds checks that every container was given the devices and limits of its own entry, and may start.
func (n *node) holds(pod *corev1.Pod) {
	n.t.Helper()
	entries := strings.Split(pod.Annotations[record], ";")
	for i, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		want, got := wanted(entries[i]), n.given(pod, c.Name)
		if want != got {
			n.t.Errorf("pod %s, container %s was given %q, recorded is %q", pod.Name, c.Name, got, want)
		}
		if want == "" {
			continue
		}
		if err := n.StartContainer(n.t.Context(), string(pod.UID), c.Name); err != nil {
			n.t.Errorf("pod %s, container %s may not start: %v", pod.Name, c.Name, err)
		}
	}
}

// wanted writes an entry of a record as given does.
func wanted(entry string) string {
	if entry == "" {
		return ""
	}
	var uuids, limits, cores []string
	for _, share := range strings.Split(strings.TrimSuffix(entry, ":"), ":") {
		f := strings.Split(share, ",")
		uuids, limits, cores = append(uuids, f[0]), append(limits, f[2]+"m"), append(cores, f[3])
	}
	return strings.Join(uuids, ",") + " " + strings.Join(limits, ",") + " " + cores[0]
}

// given writes what a container holds: the devices it sees, their memory limits, its cores.
func (n *node) given(pod *corev1.Pod, container string) string {
	held := n.Held(string(pod.UID), container)
	if held == nil {
		return ""
	}
	env := held.Answer.Envs
	var limits []string
	for i := 0; env[fmt.Sprintf("CUDA_DEVICE_MEMORY_LIMIT_%d", i)] != ""; i++ {
		limits = append(limits, env[fmt.Sprintf("CUDA_DEVICE_MEMORY_LIMIT_%d", i)])
	}
	return env["NVIDIA_VISIBLE_DEVICES"] + " " + strings.Join(limits, ",") + " " + env["CUDA_DEVICE_SM_LIMIT"]
}

// refused checks that an error was made, and that it says all of the words.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one about %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// part is a container of a test's pod: class I, S or A, and its entry in the record ("" for no devices).
type part struct{ class, entry string }

// newPod has containers named i0, s1, a2, … by class and position. UIDs are names.
func newPod(name string, parts ...part) *corev1.Pod {
	var containers []rt.Container
	for _, p := range parts {
		containers = append(containers, rt.Container{Class: rune(strings.ToLower(p.class)[0]), Entry: p.entry})
	}
	return rt.Pod(name, containers...)
}

// on is an entry for one device.
func on(uuid string, memoryMiB int) string { return rt.Share(uuid, memoryMiB) }
