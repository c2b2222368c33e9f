//go:build kind

package kind_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// crowd is a lot of small pods of all shapes, which end by themselves. No two of their containers ask for
// the same memory, so that one that gets another's shows; but for the twins, which go through a node's gate
// together.
type crowd struct {
	*kind.Story
	witness *stack.Witness
	pods    []*corev1.Pod
	seen    string // folder on each node: a file POD.CONTAINER has the environment of a container
}

// newCrowd plans n pods. Nothing is created yet.
func newCrowd(s *kind.Story, w *stack.Witness, name string, n int) *crowd {
	c := &crowd{Story: s, witness: w, seen: "/run/phasegpu-e2e/" + s.Namespace}
	for i := range n {
		c.pods = append(c.pods, c.plan(fmt.Sprintf("%s-%03d", name, i), i))
	}
	return c
}

// plan makes the i-th pod. Memory is what there is too little of, before ids of devices: kubelet keeps those of
// a pod that was deleted by force for a while longer than the scheduler knows of, and would refuse others.
func (c *crowd) plan(name string, i int) *corev1.Pod {
	gpu := func(devices int64, container int) stack.Limit { return stack.GPU(devices, int64(1200+4*i+container)) }
	wrote := func(container string) string { return c.seen + "/" + name + "." + container }
	init := func(container string, limits ...stack.Limit) stack.Container {
		return kind.Runs(stack.Init(container, limits...), "env="+wrote(container))
	}
	sidecar := func(limits ...stack.Limit) stack.Container {
		return kind.Runs(stack.Sidecar("side", limits...), "env="+wrote("side"), "stay")
	}
	app := func(container string, limits ...stack.Limit) stack.Container {
		sleep := fmt.Sprintf("sleep=%dms", 300+i*37%900)
		return kind.Runs(stack.App(container, limits...), "env="+wrote(container), sleep)
	}
	// An app that ends before its sidecar has written would take it down with it.
	beside := func(limits ...stack.Limit) stack.Container {
		a := app("app", limits...)
		a.Args = append(a.Args, "until="+wrote("side"))
		return a
	}
	var pod *corev1.Pod
	switch i % 8 {
	case 0:
		pod = c.Pod(name, init("load", gpu(1, 0)), app("app", gpu(1, 1)))
	case 1:
		pod = c.Pod(name, init("load", gpu(1, 0)), app("app"))
	case 2:
		pod = c.Pod(name, sidecar(gpu(1, 0)), beside(gpu(1, 1), stack.Cores(5)))
	case 3:
		pod = c.Pod(name, app("app", gpu(1, 0)), app("app2", gpu(1, 1)))
	case 4:
		pod = c.Pod(name, init("fetch"), init("load", gpu(1, 0)), sidecar(gpu(1, 1)), beside(gpu(1, 2)))
	case 5:
		pod = c.Pod(name, init("load", gpu(2, 0)), app("app", gpu(1, 1)))
	case 6:
		pod = c.Pod(name, app("app", stack.GPU(1, 1111))) // a twin
	default:
		pod = c.Pod(name, init("load", gpu(1, 0), stack.Cores(10)), init("warm", gpu(1, 1)), app("app", gpu(1, 2)))
	}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	folder := corev1.HostPathDirectoryOrCreate
	pod.Spec.Volumes = []corev1.Volume{{Name: "seen", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: c.seen, Type: &folder}}}}
	for position := range stack.NumContainers(pod) {
		container := kube.Container(&pod.Spec, position)
		container.VolumeMounts = []corev1.VolumeMount{{Name: "seen", MountPath: c.seen}}
		container.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
	}
	return pod
}

// create creates all pods as fast as the API server takes them.
func (c *crowd) create() {
	c.Helper()
	_, err := c.Cluster.CreateAll(c.Context(), len(c.pods), func(i int) *corev1.Pod { return c.pods[i] })
	c.Must(err)
	c.Logf("%d pods created", len(c.pods))
}

// strike deletes a pod by force, after so long a time after one of its moments: 0 when it was created, 1
// when it was bound, 2 when kubelet had admitted it, 3 when a container of it ran. One that has ended is
// deleted, too.
func (c *crowd) strike(ctx context.Context, pod *corev1.Pod, moment int, after time.Duration) error {
	now, _, err := c.witness.Within(ctx, 5*time.Minute, pod, "can be deleted", func(p *corev1.Pod) error {
		reached := []bool{true, p.Spec.NodeName != "", p.Status.StartTime != nil, runs(p)}
		if !reached[moment] && !ended(p) {
			return errors.New(stack.Describe(p))
		}
		return nil
	})
	if err != nil {
		return err
	}
	select {
	case <-time.After(after):
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.Cluster.ForceDelete(ctx, now)
}

func runs(pod *corev1.Pod) bool {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.State.Running != nil {
			return true
		}
	}
	return false
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// awaitEnded waits until so many of the pods have ended, well or not, or are gone.
func (c *crowd) awaitEnded(n int, most time.Duration) {
	c.Helper()
	c.Must(stack.Within(c.Context(), most, fmt.Sprintf("%d of %d pods have ended", n, len(c.pods)),
		func(context.Context) error {
			var left []string
			var last *corev1.Pod
			for _, pod := range c.pods {
				if now, gone := c.witness.Last(pod); now == nil || !ended(now) && !gone {
					left = append(left, pod.Name)
					last = now
				}
			}
			if len(c.pods)-len(left) < n {
				if last == nil {
					last = &corev1.Pod{}
				}
				return fmt.Errorf("%d have not: %v; the last is %s", len(left), left, stack.Describe(last))
			}
			return nil
		}))
}

// check compares what each container saw with the record of its pod, and expects all containers of pods that
// succeeded to have written something.
func (c *crowd) check() {
	c.Helper()
	seen, err := c.environments()
	c.Must(err)
	nodes, err := c.Cluster.Nodes(c.Context())
	c.Must(err)
	devices := map[string][]device.Device{}
	for _, n := range nodes {
		devices[n.Name] = n.Devices
	}
	checked := 0
	for _, planned := range c.pods {
		pod, _ := c.witness.Last(planned)
		if pod.Spec.NodeName == "" {
			continue // deleted before it had one
		}
		allocation, err := kube.Allocation(pod)
		if err != nil {
			c.Errorf("pod %s: %v", pod.Name, err)
			continue
		}
		for position, shares := range allocation {
			container := kube.Container(&pod.Spec, position).Name
			environment, saw := seen[pod.Name+"."+container]
			if !saw {
				if pod.Status.Phase == corev1.PodSucceeded {
					c.Errorf("pod %s: container %s did not tell what it saw", pod.Name, container)
				}
				continue
			}
			checked++
			want, got := kind.Recorded(shares, devices[pod.Spec.NodeName]), kind.Granted(environment)
			if !maps.Equal(want, got) {
				c.Errorf("pod %s: container %s sees %v, its record says %v", pod.Name, container, got, want)
			}
		}
	}
	c.Logf("%d containers saw what their pods' records say", checked)
}

// environments collects what the containers wrote on the nodes, by "POD.CONTAINER".
func (c *crowd) environments() (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	for _, node := range []string{kind.Worker, kind.Worker2} {
		// Names have no spaces, and each file is a line.
		list := `cd "$0" && for f in *; do case $f in *.part|'*') ;; *) echo "$f $(cat "$f")" ;; esac; done`
		text, err := c.Cluster.OnNode(c.Context(), node, "sh", "-c", list, c.seen)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			name, environment, _ := strings.Cut(line, " ")
			variables := map[string]string{}
			if err := json.Unmarshal([]byte(environment), &variables); err != nil {
				return nil, fmt.Errorf("node %s: what %s saw: %w", node, name, err)
			}
			all[name] = variables
		}
	}
	return all, nil
}

// tidy removes from the nodes what the containers wrote.
func (c *crowd) tidy() {
	for _, node := range []string{kind.Worker, kind.Worker2} {
		if _, err := c.Cluster.OnNode(context.WithoutCancel(c.Context()), node, "rm", "-rf", c.seen); err != nil {
			c.Error(err)
		}
	}
}
