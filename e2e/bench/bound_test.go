package bench_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

const (
	namespace = "bench"
	nodes     = 50
	gpus      = 4   // per node
	pods      = 300 // per round
	rounds    = 4   // with and without the extender
)

// BenchmarkBound has the same kube-scheduler bind the same pods with the extender and without it, in turns.
// Metric "ratio" is the pods bound per second with the extender over those without; design section 9 wants
// 0.9. The pods wait before the scheduler starts; the clock runs from the first that is bound to the last. On a
// small machine the API server, which shares the processors, is what limits both.
func BenchmarkBound(b *testing.B) {
	s := stack.StartT(b, stack.Options{})
	var all []nodesim.Node
	for i := range nodes {
		name := fmt.Sprintf("n%02d", i)
		all = append(all, nodesim.Node{Name: name, Devices: nodesim.GPUs(name, gpus, 24576)})
		must(b, s.Sim.AddNode(b.Context(), all[i]))
	}
	w, err := s.Witness(b.Context(), all...)
	must(b, err)
	must(b, s.Namespace(b.Context(), namespace))
	with, without := configs(b, s)

	var withExtender, alone []time.Duration
	for b.Loop() {
		round(b, s, w, without) // for caches to be warm
		for i := range rounds {
			if i%2 == 0 { // neither always comes first
				withExtender = append(withExtender, round(b, s, w, with))
			}
			alone = append(alone, round(b, s, w, without))
			if i%2 == 1 {
				withExtender = append(withExtender, round(b, s, w, with))
			}
		}
	}
	if over := w.OverCommitted(); len(over) > 0 {
		b.Errorf("over-committed: %v", over[0])
	}
	fast, base := perSecond(withExtender), perSecond(alone)
	b.ReportMetric(fast, "pods/s")
	b.ReportMetric(base, "pods/s-without")
	b.ReportMetric(fast/base, "ratio")
	b.ReportMetric(0, "ns/op") // most of it is preparation
}

// perSecond is the median over rounds of the pods that were bound in a second.
func perSecond(took []time.Duration) float64 {
	took = slices.Sorted(slices.Values(took))
	middle := (took[(len(took)-1)/2] + took[len(took)/2]) / 2
	return (pods - 1) / middle.Seconds()
}

// configs returns the scheduler's configuration as it runs, and the same without the extender. There nodes do
// not advertise memory either, and nobody looks at it.
func configs(b *testing.B, s *stack.Stack) (with, without []byte) {
	b.Helper()
	with, err := os.ReadFile(filepath.Join(s.Dir, "scheduler", "config.yaml"))
	must(b, err)
	var config map[string]any
	must(b, yaml.Unmarshal(with, &config))
	delete(config, "extenders")
	profile := config["profiles"].([]any)[0].(map[string]any)
	profile["pluginConfig"] = []any{map[string]any{
		"name": "NodeResourcesFit",
		"args": map[string]any{"ignoredResources": []any{"nvidia.com/gpumem"}},
	}}
	without, err = yaml.Marshal(config)
	must(b, err)
	return with, without
}

// round creates the pods, starts the scheduler, and returns the time between the first binding and the last.
func round(b *testing.B, s *stack.Stack, w *stack.Witness, config []byte) time.Duration {
	b.Helper()
	ctx := b.Context()
	must(b, s.Scheduler.Stop(ctx))
	created := create(b, s)
	must(b, s.StartScheduler(ctx, config))
	var first, last time.Time
	for _, pod := range created {
		_, bound, err := w.AwaitBound(ctx, pod)
		must(b, err)
		if first.IsZero() || bound.Before(first) {
			first = bound
		}
		if bound.After(last) {
			last = bound
		}
	}
	must(b, s.Clear(context.WithoutCancel(ctx), namespace))
	return last.Sub(first)
}

func create(b *testing.B, s *stack.Stack) []*corev1.Pod {
	b.Helper()
	created, err := s.CreateAll(b.Context(), pods, func(i int) *corev1.Pod {
		return stack.NewPod(namespace, fmt.Sprintf("p%03d", i), stack.App("app", stack.GPU(1, 1000)))
	})
	must(b, err)
	return created
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
