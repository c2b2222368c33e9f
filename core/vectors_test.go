package core_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/wire"
)

// TestVectors holds the code to the answers that were worked out independently of it: random pods
// (phases.json), what a real kubelet reported when init containers ran again, in order
// (kubelet-rerun.json), and one pod per rule (edges.json).
func TestVectors(t *testing.T) {
	for file, count := range map[string]int{"phases.json": 500, "kubelet-rerun.json": 19, "edges.json": 19} {
		t.Run(file, func(t *testing.T) {
			var vectors []vector
			text, err := os.ReadFile(filepath.Join("testdata", "vectors", file))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &vectors); err != nil {
				t.Fatal(err)
			}
			if len(vectors) != count {
				t.Errorf("%d vectors, want %d", len(vectors), count)
			}
			for _, v := range vectors {
				t.Run(v.Name, func(t *testing.T) {
					got := answer(t, &v)
					if !reflect.DeepEqual(got, v.Want) {
						t.Errorf("got\n%s\nwant\n%s", show(t, got), show(t, v.Want))
					}
				})
			}
		})
	}
}

// vector is a pod and what there is to say about it.
type vector struct {
	Name    string
	Release string // the cluster's policy
	Pod     pod
	Want    want
}

type want struct {
	Peak           peak
	CompletedInits int
	Phases         []named
	Reserved       reserved
}

type peak struct {
	Devices   int64
	MemoryMiB *int64 // null while only a device can settle it
	Cores     int64
}

type named struct {
	Name  string
	Alive []string
}

type reserved struct {
	PerDevice []perDevice
	Total     struct{ MemoryMiB, Cores int64 }
}

type perDevice struct {
	UUID                    string
	Slots, MemoryMiB, Cores int64
}

// pod is as much of a Kubernetes pod as the vectors use.
type pod struct {
	Metadata struct {
		Annotations       map[string]string
		DeletionTimestamp *time.Time
	}
	Spec struct {
		NodeName                   string
		InitContainers, Containers []container
	}
	Status struct {
		Phase      string
		Conditions []struct {
			Type, Status       string
			LastTransitionTime time.Time
		}
		InitContainerStatuses, ContainerStatuses []struct {
			Name  string
			State struct {
				Running    *struct{ StartedAt time.Time }
				Terminated *struct {
					ExitCode              int32
					StartedAt, FinishedAt time.Time
				}
			}
		}
	}
}

type container struct {
	Name          string
	RestartPolicy string
	Resources     struct{ Limits map[string]string }
}

// answer computes all that a vector wants.
func answer(t *testing.T, v *vector) want {
	containers := slices.Concat(v.Pod.Spec.InitContainers, v.Pod.Spec.Containers)
	classes := classesOf(&v.Pod)
	var got want

	for k := range classes.Len() {
		n := named{Name: "steady"}
		if i := classes.InitPosition(k); i >= 0 {
			n.Name = containers[i].Name
		}
		for i := range classes {
			if classes.Alive(k, i) {
				n.Alive = append(n.Alive, containers[i].Name)
			}
		}
		got.Phases = append(got.Phases, n)
	}

	known := true
	asked, err := classes.Fold(0, func(i int) device.Amount {
		r := requestOf(t, &containers[i])
		known = known && r.MemoryKnown()
		n := int64(r.Devices)
		return device.Amount{Slots: n, MemoryMiB: n * r.MemoryMiB, Cores: n * r.Cores}
	})
	if err != nil {
		t.Fatal(err)
	}
	got.Peak = peak{Devices: asked.Slots, Cores: asked.Cores}
	if known {
		got.Peak.MemoryMiB = &asked.MemoryMiB
	}

	progress := classes.Progress(statusOf(&v.Pod, containers))
	got.CompletedInits = progress.Inits

	release, err := phase.ParseRelease(cmp.Or(v.Pod.Metadata.Annotations[wire.ReleaseAnnotation], v.Release))
	if err != nil {
		t.Fatal(err)
	}
	var a device.Allocation
	text, recorded := v.Pod.Metadata.Annotations["hami.io/vgpu-devices-allocated"]
	if recorded && v.Pod.Spec.NodeName != "" {
		if a, err = wire.DecodeAllocation("NVIDIA", text, len(containers)); err != nil {
			t.Fatal(err)
		}
		if again := wire.EncodeAllocation("NVIDIA", a); again != text {
			t.Errorf("the allocation %q came back as %q", text, again)
		}
	}
	r, err := classes.Reserved(a, classes.First(progress, release))
	if err != nil {
		t.Fatal(err)
	}
	got.Reserved.PerDevice = []perDevice{}
	for _, h := range r.Devices {
		got.Reserved.PerDevice = append(got.Reserved.PerDevice, perDevice{h.UUID, h.Slots, h.MemoryMiB, h.Cores})
	}
	for _, total := range r.Totals { // of the one family that there is
		got.Reserved.Total.MemoryMiB, got.Reserved.Total.Cores = total.MemoryMiB, total.Cores
	}
	return got
}

func classesOf(p *pod) phase.Pod {
	var classes phase.Pod
	for _, c := range p.Spec.InitContainers {
		class := phase.Init
		if c.RestartPolicy == "Always" {
			class = phase.Sidecar
		}
		classes = append(classes, class)
	}
	for range p.Spec.Containers {
		classes = append(classes, phase.App)
	}
	return classes
}

// requestOf reads limits, which are plain integers in these files.
func requestOf(t *testing.T, c *container) device.Request {
	limit := func(name string) int64 {
		text, ok := c.Resources.Limits[name]
		if !ok {
			return 0
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return device.Request{
		Family: "NVIDIA", Devices: int(limit("nvidia.com/gpu")), MemoryMiB: limit("nvidia.com/gpumem"),
		MemoryPercent: limit("nvidia.com/gpumem-percentage"), Cores: limit("nvidia.com/gpucores"),
	}
}

func statusOf(p *pod, containers []container) phase.Status {
	s := phase.Status{
		Terminal: p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed",
		Deleting: p.Metadata.DeletionTimestamp != nil,
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == "AllContainersRestarting":
			s.Restarting = c.Status == "True"
		case c.Type == "PodReadyToStartContainers" && c.Status == "True":
			s.Sandbox, s.SandboxReadyAt = phase.SandboxReady, c.LastTransitionTime
		case c.Type == "PodReadyToStartContainers" && c.Status == "False":
			s.Sandbox = phase.SandboxNotReady
		}
	}
	states := map[string]phase.State{}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		var state phase.State
		if r := c.State.Running; r != nil {
			state = phase.State{Running: true, StartedAt: r.StartedAt}
		}
		if e := c.State.Terminated; e != nil {
			state = phase.State{Terminated: true, ExitCode: e.ExitCode, StartedAt: e.StartedAt,
				FinishedAt: e.FinishedAt}
		}
		states[c.Name] = state
	}
	s.State = func(position int) phase.State { return states[containers[position].Name] }
	return s
}

func show(t *testing.T, w want) string {
	text, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
