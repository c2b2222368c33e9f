//go:build kind

package kind_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// BenchmarkGateSharing measures what it brings that pods whose allocations are identical share their node's gate:
// a Deployment whose replicas ask for the same of one card is scaled up from nothing; so is, by turns, one whose
// replicas opted in to NUMA refit, of which each counts by itself and waits for kubelet's word on the one before.
// It is no part of the tests:
//
//	go test -tags kind -run '^$' -bench GateSharing -benchtime 1x ./e2e/kind
func BenchmarkGateSharing(b *testing.B) {
	const replicas, rounds = 8, 3
	s := kind.Begin(b)
	w, err := s.Cluster.Witness(s.Context())
	s.Must(err)
	var shared, alone [2]time.Duration // until the last is bound, and until kubelet has reported on the last
	for b.Loop() {
		for round := range rounds {
			for _, way := range []struct {
				name      string
				alignment string
				sum       *[2]time.Duration
			}{{"shared", "", &shared}, {"alone", "best-effort", &alone}} {
				bound, reported := scaleUp(s, w, fmt.Sprint(way.name, "-", round), way.alignment, replicas)
				s.Logf("%s: %d replicas bound after %v, reported after %v", way.name, replicas, bound, reported)
				way.sum[0] += bound / rounds
				way.sum[1] += reported / rounds
			}
		}
	}
	b.ReportMetric(shared[0].Seconds(), "s/bound-shared")
	b.ReportMetric(alone[0].Seconds(), "s/bound-alone")
	b.ReportMetric(shared[1].Seconds(), "s/reported-shared")
	b.ReportMetric(alone[1].Seconds(), "s/reported-alone")
	b.ReportMetric(0, "ns/op")
}

// scaleUp scales a Deployment from nothing, and returns how long it took until the last of its pods was bound,
// and until kubelet had reported on it. Then it deletes all.
func scaleUp(s *kind.Story, w *stack.Witness, name, alignment string, replicas int32) (bound, reported time.Duration) {
	s.Helper()
	ctx := s.Context()
	apps := s.Cluster.Client.AppsV1().Deployments(s.Namespace)
	pod := kind.Pin(s.Pod(name, stack.App("app", stack.GPU(1, 1000))), kind.CardC)
	if alignment != "" {
		stack.Annotate(pod, wire.NUMAAlignment, alignment)
	}
	labels, none := map[string]string{"app": name}, int32(0)
	_, err := apps.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels,
				Annotations: pod.Annotations}, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	s.Must(err)
	began := time.Now()
	_, err = apps.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas),
		metav1.PatchOptions{})
	s.Must(err)
	var pods []corev1.Pod
	s.Must(stack.Eventually(ctx, "the replicas are there", func(ctx context.Context) error {
		list, err := s.Cluster.Client.CoreV1().Pods(s.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: "app=" + name})
		if err == nil && len(list.Items) != int(replicas) {
			err = fmt.Errorf("%d are", len(list.Items))
		}
		if err == nil {
			pods = list.Items
		}
		return err
	}))
	for i := range pods {
		_, at, err := w.AwaitBound(ctx, &pods[i])
		s.Must(err)
		bound = max(bound, at.Sub(began))
	}
	for i := range pods {
		_, _, err := w.Await(ctx, &pods[i], "is reported", func(p *corev1.Pod) error {
			if p.Status.StartTime == nil {
				return fmt.Errorf("kubelet has not reported on it")
			}
			return nil
		})
		s.Must(err)
	}
	reported = time.Since(began)
	s.Must(apps.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}))
	s.Must(s.Cluster.Clear(ctx, s.Namespace))
	return bound.Round(time.Millisecond), reported.Round(time.Millisecond)
}
