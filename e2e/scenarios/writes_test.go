package scenarios_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/controlplane"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestWrites reads in the API server's audit log what phasegpu writes (design, section 9): for a pod that meets no
// contention exactly what the same scheduler writes for a pod without devices, and nothing at all for a minute in
// which nothing happens on 20 nodes. The Lease of the scheduler is left out, because that is renewed by the clock.
// Events and wake-ups are counted apart, and are few.
func TestWrites(t *testing.T) {
	const nodes, pods = 20, 60
	s := stack.StartT(t, stack.Options{ControlPlane: controlplane.Options{Audit: true}})
	a := &audited{Stack: s, log: s.AuditLog()}
	ctx := t.Context()
	must(t, s.Namespace(ctx, "writes"))
	for i := range nodes {
		n := node(nodeName(i), 2, 24576)
		must(t, s.Sim.AddNode(ctx, n))
		must(t, s.AwaitNode(ctx, n.Name, n.Devices))
	}
	a.since(t)

	run := func(name string, init, app []stack.Limit) []*corev1.Pod {
		all := createAtOnce(t, s, pods, func(i int) *corev1.Pod {
			pod := stack.NewPod("writes", fmt.Sprintf("%s-%02d", name, i), stack.Init("load", init...),
				stack.App("app", app...))
			pod.Spec.SchedulerName = stack.SchedulerName
			// Packed, they would contend for the last place of a node.
			pod.Annotations = map[string]string{"hami.io/node-scheduler-policy": "spread"}
			return pod
		})
		for _, pod := range all {
			must(t, s.Sim.Finish(ctx, pod, "load", 0))
			must(t, s.Sim.AwaitRunning(ctx, pod, "app"))
		}
		return all
	}
	t.Run("a pod with devices costs no write more", func(t *testing.T) {
		run("plain", nil, nil)
		plain := a.since(t)
		all := run("gpu", []stack.Limit{stack.GPU(1, 2000)}, []stack.Limit{stack.GPU(1, 1000)})
		must(t, s.AwaitSeen(ctx, all[pods-1])) // whatever it makes of that
		gpu := a.since(t)
		want := map[string]int{"create pods/binding": pods}
		if diff := cmp.Diff(want, plain.writes); diff != "" {
			t.Errorf("without devices: %s", diff)
		}
		if diff := cmp.Diff(plain.writes, gpu.writes); diff != "" {
			t.Errorf("pods without devices and with: %s", diff)
		}
		if plain.events != 0 || gpu.events > 2*pods { // placed, released
			t.Errorf("%d events of ours about %d pods with devices, %d without", gpu.events, pods, plain.events)
		}
		t.Logf("%d events of ours about %d pods with devices", gpu.events, pods)
	})
	t.Run("nothing is written while nothing happens", func(t *testing.T) {
		minute := time.NewTimer(time.Minute)
		defer minute.Stop()
		select {
		case <-minute.C:
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
		idle := a.since(t)
		if len(idle.writes) > 0 || idle.leases == 0 {
			t.Errorf("in a minute in which nothing happened: %v and %d renewals of the scheduler's Lease", idle.writes,
				idle.leases)
		}
		if idle.events > pods { // late ones
			t.Errorf("%d events in a minute in which nothing happened", idle.events)
		}
	})
	t.Run("contention costs wake-ups, and few", func(t *testing.T) {
		const left = 10
		must(t, s.Clear(ctx, "writes"))
		a.since(t)
		all := createAtOnce(t, s, pods, func(i int) *corev1.Pod { // 40 fit
			return stack.NewPod("writes", fmt.Sprintf("whole-%02d", i), stack.App("app", stack.GPU(1, 24576)))
		})
		awaitBound(t, s, "writes", 2*nodes, stack.EventuallyTimeout)
		full := a.since(t)
		deleted := 0
		for _, pod := range all {
			now, err := s.Pod(ctx, pod)
			must(t, err)
			if now.Spec.NodeName != "" && deleted < left {
				must(t, s.Delete(ctx, pod))
				deleted++
			}
		}
		awaitBound(t, s, "writes", 2*nodes, stack.EventuallyTimeout)
		must(t, s.AwaitAudit(ctx))
		freed := a.since(t)
		t.Logf("%d pods for %d places: %v, %d events; %d places freed: %v, %d events",
			pods, 2*nodes, full.writes, full.events, left, freed.writes, freed.events)
		if full.writes["patch pods"] > pods || freed.writes["patch pods"] > 2*left {
			t.Errorf("%d wake-ups while %d places filled, %d when %d were freed", full.writes["patch pods"], 2*nodes,
				freed.writes["patch pods"], left)
		}
		if got := full.writes["create pods/binding"] + freed.writes["create pods/binding"]; got != 2*nodes+left {
			t.Errorf("%d bindings for %d pods", got, 2*nodes+left)
		}
		for _, w := range []written{full, freed} {
			for kind := range w.writes {
				// the last is kube-scheduler's
				if kind != "create pods/binding" && kind != "patch pods" && kind != "patch pods/status" {
					t.Errorf("wrote %s", kind)
				}
			}
		}
		if n := full.events + freed.events; n > 2*nodes+left {
			t.Errorf("%d events of ours about %d bindings", n, 2*nodes+left)
		}
	})
}

// audited is a stack whose audit log is read piece by piece.
type audited struct {
	*stack.Stack
	log   *controlplane.AuditLog
	marks int
}

// written is what phasegpu wrote, kube-scheduler among it.
type written struct {
	writes map[string]int // by "verb resource"
	events int            // of all but kube-scheduler
	leases int
}

// since returns what was written since the last call. A request that the test makes marks where that ends.
func (a *audited) since(t *testing.T) written {
	t.Helper()
	a.marks++
	mark := fmt.Sprintf("mark-%d", a.marks)
	_, err := a.Client.CoreV1().ConfigMaps("default").Get(t.Context(), mark, metav1.GetOptions{})
	if err == nil {
		t.Fatalf("there is a ConfigMap %s", mark)
	}
	w := written{writes: map[string]int{}}
	must(t, stack.Eventually(t.Context(), "the audit log has "+mark, func(context.Context) error {
		requests, err := a.log.Next()
		if err != nil {
			return err
		}
		err = errors.New("it has not")
		for _, r := range requests {
			if r.Name == mark {
				err = nil
			}
			if !strings.HasPrefix(r.User, "system:serviceaccount:"+stack.SystemNamespace+":") || !r.Writes() {
				continue
			}
			switch {
			case r.Resource == "leases" && r.Agent == "kube-scheduler" && r.Name == stack.SchedulerName:
				w.leases++
			case r.Resource == "events" && r.Agent != "kube-scheduler":
				w.events++
			case r.Resource != "events":
				w.writes[r.Verb+" "+r.Resource]++
			}
		}
		return err
	}))
	return w
}
