package kube_test

import (
	"fmt"
	"math/rand"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/families"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// TestFoldEqualsKubernetes: the fold over raw quantities is the API server's own effective request, for
// every resource of every family, which `requests.` of a quota is charged by.
func TestFoldEqualsKubernetes(t *testing.T) {
	seed := rand.Int63()
	rng := rand.New(rand.NewSource(seed))
	all := classify.Families()
	for n := range 100_000 {
		f := &all[n%len(all)]
		spec := randomSpec(rng, f)
		want := resourcehelper.PodRequests(&corev1.Pod{Spec: *spec}, resourcehelper.PodResourcesOptions{})
		classes := kube.Classes(spec)
		for _, name := range f.Resources() {
			folded, err := classes.Fold(0, func(position int) device.Amount {
				q := kube.Container(spec, position).Resources.Requests[name]
				return device.Amount{MemoryMiB: q.Value()}
			})
			if err != nil {
				t.Fatalf("seed %d: pod %d: %v", seed, n, err)
			}
			if q := want[name]; q.CmpInt64(folded.MemoryMiB) != 0 {
				t.Fatalf("seed %d: pod %d: %s: folded %d, Kubernetes says %s\n%+v", seed, n, name, folded.MemoryMiB, q.String(), spec)
			}
		}
	}
}

// randomSpec returns up to five init containers and sidecars in any order and up to three apps. Most ask
// for some of the family's resources; restart policies are those that Kubernetes allows on a container.
func randomSpec(rng *rand.Rand, f *families.Family) *corev1.PodSpec {
	container := func(name string) corev1.Container {
		c := corev1.Container{Name: name}
		if rng.Intn(4) == 0 {
			return c
		}
		c.Resources.Limits = corev1.ResourceList{}
		for _, name := range f.Resources() {
			if rng.Intn(3) > 0 {
				c.Resources.Limits[name] = *resource.NewQuantity(int64(1+rng.Intn(100)), resource.DecimalSI)
			}
		}
		if f.MemoryPercent != "" && rng.Intn(2) == 0 {
			delete(c.Resources.Limits, f.MemoryPercent)
		} else {
			delete(c.Resources.Limits, f.Memory)
		}
		c.Resources.Requests = c.Resources.Limits // as the API server sets them
		return c
	}
	policies := []corev1.ContainerRestartPolicy{corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure}
	spec := &corev1.PodSpec{}
	for i := range rng.Intn(6) {
		c := container(fmt.Sprintf("i%d", i))
		if p := rng.Intn(5); p < 3 {
			c.RestartPolicy = &policies[min(p, 2)]
		}
		spec.InitContainers = append(spec.InitContainers, c)
	}
	for i := range 1 + rng.Intn(3) {
		c := container(fmt.Sprintf("a%d", i))
		if rng.Intn(5) == 0 {
			c.RestartPolicy = &policies[rng.Intn(3)] // Always on an app makes no sidecar
		}
		spec.Containers = append(spec.Containers, c)
	}
	return spec
}
