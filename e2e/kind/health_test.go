//go:build kind

package kind_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestUnhealthyCard: a card turns unhealthy in the inventory file. It takes nothing new; what
// runs there goes on, init containers to their apps included, and stays charged; when it is healthy again, it
// takes who waited for it.
func TestUnhealthyCard(t *testing.T) {
	s := kind.Begin(t)
	running := s.Submit(kind.Pin(s.Pod("running", stack.App("serve", stack.GPU(1, 6000))), kind.CardA))
	loading := s.Submit(kind.Pin(s.Pod("loading", stack.Init("load", stack.GPU(1, 8000)),
		stack.App("train", stack.GPU(1, 3000))), kind.CardA))
	running = s.Running(running, "serve")
	s.Running(loading, "load")
	s.Reserved(kind.CardA, 14000)

	t.Cleanup(func() {
		if err := declareHealth(context.WithoutCancel(t.Context()), s, kind.CardA, true); err != nil {
			t.Error(err)
		}
	})
	s.Must(declareHealth(t.Context(), s, kind.CardA, false))
	s.Reserved(kind.CardA, 14000)
	waiting := s.Submit(kind.Pin(s.Pod("waiting", stack.App("app", stack.GPU(1, 1000))), kind.CardA))
	s.Pending(waiting, "Unhealthy GPUs")
	other := s.Submit(kind.Pin(s.Pod("other", stack.App("app", stack.GPU(1, 1000))), kind.CardA, kind.CardB))
	s.Must(s.Cluster.CheckRecord(t.Context(), s.Running(other, "app")))
	s.Reserved(kind.CardB, 1000)
	s.Finish(loading, "load", 0)
	s.Must(s.Cluster.CheckRecord(t.Context(), s.Running(loading, "train")))
	s.Reserved(kind.CardA, 9000)
	s.StillPending(waiting)

	s.Must(declareHealth(t.Context(), s, kind.CardA, true))
	s.Must(s.Cluster.CheckRecord(t.Context(), s.Running(waiting, "app")))
	s.Reserved(kind.CardA, 10000)
	now := s.Running(running, "serve")
	if was, is := stack.ContainerStatus(running, "serve").ContainerID, stack.ContainerStatus(now,
		"serve").ContainerID; was != is {
		t.Errorf("container serve was %s and is %s", was, is)
	}
}

// declareHealth changes a card of Worker in the ConfigMap of inventories, and waits until the extender knows.
func declareHealth(ctx context.Context, s *kind.Story, card string, healthy bool) error {
	const name, file = "phasegpu-inventory", kind.Worker + ".json"
	began := time.Now()
	maps := s.Cluster.Client.CoreV1().ConfigMaps(stack.NodeNamespace)
	m, err := maps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var inventory struct {
		Cards []map[string]any `json:"cards"`
	}
	if err := json.Unmarshal([]byte(m.Data[file]), &inventory); err != nil {
		return fmt.Errorf("%s of ConfigMap %s: %w", file, name, err)
	}
	for _, c := range inventory.Cards {
		if c["uuid"] == card {
			c["healthy"] = healthy
		}
	}
	text, err := json.Marshal(inventory)
	if err != nil {
		return err
	}
	m.Data[file] = string(text)
	if _, err := maps.Update(ctx, m, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := haveVolumesUpdated(ctx, s, "phasegpu-device-plugin", kind.Worker); err != nil {
		return err
	}
	what := fmt.Sprintf("the extender knows that %s is healthy: %t", card, healthy)
	err = stack.Within(ctx, 3*time.Minute, what, func(ctx context.Context) error {
		l, err := s.Cluster.Ledger(ctx)
		if err != nil {
			return err
		}
		if d := l.Device(kind.Worker, card); d == nil || d.Healthy != healthy {
			return fmt.Errorf("it has %+v", d)
		}
		return nil
	})
	s.Logf("%s is declared healthy: %t; the extender knew after %.1f s", card, healthy, time.Since(began).Seconds())
	return err
}

// haveVolumesUpdated makes kubelet look at a workload's pods, of one node or of all: it brings changes of a ConfigMap
// or Secret to a pod when it next does, which is within a minute or so, and at once when the pod itself changes.
func haveVolumesUpdated(ctx context.Context, s *kind.Story, workload, node string) error {
	pods, err := s.Cluster.SystemPods(ctx, workload)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if node != "" && pod.Spec.NodeName != node {
			continue
		}
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"e2e.phasegpu.io/look":%q}}}`,
			time.Now().Format(time.RFC3339Nano))
		pods := s.Cluster.Client.CoreV1().Pods(pod.Namespace)
		if _, err := pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}
