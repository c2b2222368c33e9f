//go:build kind

package kind_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestUpgrade replaces every component by another version while pods run and one waits, and goes back. The books are
// as they were, what runs is not touched, and the pod that waits is bound when there is room.
func TestUpgrade(t *testing.T) {
	s := kind.Begin(t)
	loading := s.Submit(kind.Pin(s.Pod("loading", stack.Init("load", stack.GPU(1, 9000)),
		stack.Sidecar("side", stack.GPU(1, 500)), stack.App("train", stack.GPU(1, 4000))), kind.CardA))
	serving := s.Submit(kind.Pin(s.Pod("serving", stack.App("serve", stack.GPU(1, 3000), stack.Cores(20))), kind.CardC))
	loading, serving = s.Running(loading, "load"), s.Running(serving, "serve")
	waiting := s.Submit(kind.Pin(s.Pod("waiting", stack.App("app", stack.GPU(1, 20000))), kind.CardA))
	s.Pending(waiting, "memory")
	v := version{s, images(s)}
	t.Cleanup(func() {
		if t.Failed() {
			if err := script(context.WithoutCancel(t.Context()), s, "deploy"); err != nil {
				t.Error(err)
			}
		}
	})

	v.replaced(func() { v.roll("-next") })
	runsOn(s, loading)
	runsOn(s, serving)
	s.StillPending(waiting)
	s.Finish(loading, "load", 0)
	loading = s.Running(loading, "train")
	waiting = s.Running(waiting, "app")
	s.Must(s.Cluster.CheckRecord(s.Context(), loading))
	s.Reserved(kind.CardA, 24500)

	late := s.Submit(kind.Pin(s.Pod("late", stack.App("app", stack.GPU(1, 10000))), kind.CardA))
	s.Pending(late, "memory")
	v.replaced(func() { v.roll("") })
	for _, pod := range []*corev1.Pod{loading, serving, waiting} {
		runsOn(s, pod)
	}
	s.Delete(waiting)
	s.Must(s.Cluster.CheckRecord(s.Context(), s.Running(late, "app")))
	s.Reserved(kind.CardA, 14500)
}

// version is what runs of phasegpu.
type version struct {
	*kind.Story
	images map[string]string // by "kind/container": the image that was there
}

// workloads of phasegpu, and their own container.
func workloads() map[string]struct{ kind, namespace, container string } {
	return map[string]struct{ kind, namespace, container string }{
		"phasegpu-webhook":       {"deployments", stack.SystemNamespace, "webhook"},
		"phasegpu-scheduler":     {"deployments", stack.SystemNamespace, "extender"},
		"phasegpu-numarefit":     {"deployments", stack.SystemNamespace, "numarefit"},
		"phasegpu-device-plugin": {"daemonsets", stack.NodeNamespace, "device-plugin"},
	}
}

// images returns the image of each workload, and gives each a second name on all nodes.
func images(s *kind.Story) map[string]string {
	s.Helper()
	all := map[string]string{}
	for name, w := range workloads() {
		pods, err := s.Cluster.SystemPods(s.Context(), name)
		s.Must(err)
		for _, pod := range pods {
			for _, c := range pod.Spec.Containers {
				if c.Name == w.container {
					all[name] = c.Image
				}
			}
		}
		for _, node := range []string{kind.Worker, kind.Worker2, kind.Worker3} {
			image := "docker.io/library/" + all[name]
			_, err := s.Cluster.OnNode(s.Context(), node, "ctr", "-n", "k8s.io", "images", "tag", "--force", image,
				image+"-next")
			s.Must(err)
		}
	}
	return all
}

// replaced expects of what replaces the components that the books are the same before and after.
func (v version) replaced(replace func()) {
	v.Helper()
	before := booksOf(v.Books())
	replace()
	v.AwaitBooks("the books are as before", func(l *stack.Ledger) error {
		if diff := cmp.Diff(before, booksOf(l)); diff != "" {
			return fmt.Errorf("(-before +after):\n%s", diff)
		}
		return nil
	})
	v.Must(v.Cluster.AwaitAudit(v.Context()))
	v.Must(v.Cluster.Audit(v.Context()))
	v.Logf("the books are as before, and audited")
}

// roll gives every workload the image with a suffix and a variable that has the suffix, or what was there without one,
// and waits until nothing else runs.
func (v version) roll(suffix string) {
	v.Helper()
	variable := map[string]any{"name": "PHASEGPU_VERSION", "value": suffix}
	if suffix == "" {
		variable = map[string]any{"name": "PHASEGPU_VERSION", "$patch": "delete"}
	}
	kubectl := func(args ...string) { v.Must(script(v.Context(), v.Story, "kubectl", args...)) }
	for name, w := range workloads() {
		container := map[string]any{"name": w.container, "image": v.images[name] + suffix, "env": []any{variable}}
		template := map[string]any{"spec": map[string]any{"containers": []any{container}}}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
		v.Must(err)
		kubectl("-n", w.namespace, "patch", w.kind, name, "-p", string(patch))
	}
	for name, w := range workloads() {
		kubectl("-n", w.namespace, "rollout", "status", w.kind, name, "--timeout=3m")
	}
	v.Eventually("only the new version runs", func(ctx context.Context) error {
		for name, w := range workloads() {
			pods, err := v.Cluster.SystemPods(ctx, name)
			if err != nil {
				return err
			}
			for _, pod := range pods {
				for _, c := range pod.Spec.Containers {
					if c.Name == w.container && c.Image != v.images[name]+suffix {
						return fmt.Errorf("pod %s runs %s", pod.Name, c.Image)
					}
				}
			}
		}
		return nil
	})
}
