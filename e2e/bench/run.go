package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/e2e/controlplane"
	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// Options say how much is measured.
type Options struct {
	Nodes    int            // of the cluster
	GPUs     int            // of each node
	Pods     int            // of a burst
	Rounds   int            // bursts of each mode
	Rate     int            // pods that come in a second, in the steady part
	Steady   time.Duration  // how long they come; 0 for no steady part
	Inits    int            // init containers that finish in a second, in the modes in which they do
	Programs stack.Programs // built when not given
	Profiles string         // directory for CPU profiles of extender and kube-scheduler; "" for none
	Progress io.Writer
}

// Memory of a GPU, and of what a pod asks for, in MiB. Ten pods share a GPU at most.
const gpuMiB, podMiB = 24576, 1000

// Two extended resources that no device plugin of ours offers, as many of each node as there are slots and MiB of its
// GPUs. kube-scheduler counts them as it does any, a sum for each node.
const countedGPU, countedMemory corev1.ResourceName = "example.test/gpu", "example.test/gpumem"

// Limits of the clients of kube-scheduler and extender, so that they are not what is measured.
const qps, burst = 10_000, 20_000

// writers is how many reports the simulated kubelets write at once. All in a thousand at once would have the API
// server do nothing else for seconds.
const writers = 16

// bench is one cluster under measurement.
type bench struct {
	Options
	*stack.Stack
	log           *controlplane.AuditLog
	with, without []byte // configurations of kube-scheduler
	round         int    // tells names of pods apart
}

// Run starts a cluster, measures and stops it.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	b := &bench{Options: o}
	if o.Progress == nil {
		b.Progress = io.Discard
	}
	b.say("starting a control plane")
	b.Stack, err = stack.Start(ctx, stack.Options{
		ControlPlane: controlplane.Options{Audit: true, Progress: b.Progress},
		Nodes:        nodesim.Options{Writers: writers},
		Programs:     o.Programs,
		ExtenderArgs: []string{fmt.Sprintf("--qps=%d", qps), fmt.Sprintf("--burst=%d", burst), "--pprof",
			"--log-level=warn"},
		Scheduler: b.configure,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Stop()) }()
	b.log = b.AuditLog()
	config := b.Admin()
	config.UserAgent = "client"
	if b.Client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if err := b.populate(ctx); err != nil {
		return nil, err
	}
	return b.measure(ctx)
}

// configure raises the limits of kube-scheduler's client, and keeps its configuration with the extender and one
// without. What nodes advertise besides GPUs is nothing to either.
func (b *bench) configure(config map[string]any) {
	connection := config["clientConnection"].(map[string]any)
	connection["qps"], connection["burst"] = qps, burst
	b.with, _ = yaml.Marshal(config) // it was read from YAML
	alone := map[string]any{}
	for key, value := range config {
		if key != "extenders" {
			alone[key] = value
		}
	}
	b.without, _ = yaml.Marshal(alone)
}

// populate adds namespaces and nodes.
func (b *bench) populate(ctx context.Context) error {
	for _, name := range []string{namespace, churnNamespace} {
		if err := b.Namespace(ctx, name); err != nil {
			return err
		}
	}
	began := time.Now()
	counted := corev1.ResourceList{
		countedGPU:    *resource.NewQuantity(int64(10*b.GPUs), resource.DecimalSI),
		countedMemory: *resource.NewQuantity(int64(gpuMiB*b.GPUs), resource.DecimalSI),
	}
	err := stack.Each(b.Nodes, func(i int) error {
		name := fmt.Sprintf("gpu-node-%04d", i) // as long as names of nodes are
		return b.Sim.AddNode(ctx, nodesim.Node{Name: name, Devices: nodesim.GPUs(name, b.GPUs, gpuMiB),
			Extended: counted})
	})
	b.say("%d nodes with %d GPUs each are there after %v", b.Nodes, b.GPUs, time.Since(began).Round(time.Second))
	return err
}

// measure has the modes take turns, so that none always comes first. One burst before, which does not count,
// warms the caches.
func (b *bench) measure(ctx context.Context) (*Result, error) {
	r := &Result{Options: b.Options, Bursts: map[Mode][]Burst{}, Steady: map[Mode]Steady{}}
	if _, err := b.burst(ctx, Mode{Extender: true}); err != nil {
		return nil, err
	}
	modes := Modes()
	for round := range b.Rounds {
		for i := range modes {
			mode := modes[(i+round)%len(modes)]
			burst, err := b.burst(ctx, mode)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", mode, err)
			}
			b.say("burst %d of %d, %s: %.0f pods/s", round+1, b.Rounds, mode, burst.PerSecond())
			r.Bursts[mode] = append(r.Bursts[mode], *burst)
		}
	}
	if b.Options.Steady > 0 {
		for _, mode := range modes {
			steady, err := b.steady(ctx, mode)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", mode, err)
			}
			b.say("steady, %s: p50 %v, p99 %v", mode, Quantile(steady.Waited, 50), Quantile(steady.Waited, 99))
			r.Steady[mode] = *steady
		}
	}
	if overlaps := b.Sim.Overlaps(); len(overlaps) > 0 {
		return nil, fmt.Errorf("two pods with different allocations were between bound and reported: %+v", overlaps[0])
	}
	return r, nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.Progress, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
