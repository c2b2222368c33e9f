package kube_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/gen/kube"
)

func TestMisspelt(t *testing.T) {
	one := resource.MustParse("1")
	for _, test := range []struct {
		name        string
		annotations []string
		resources   []corev1.ResourceName
		want        []string
	}{
		{"nothing", nil, nil, nil},
		{"all right", []string{"phasegpu.io/release", "hami.io/gpu-scheduler-policy", "nvidia.com/use-gpuuuid", "hami.io/vgpu-devices-allocated"},
			[]corev1.ResourceName{"nvidia.com/gpu", "nvidia.com/gpumem", "cpu", "memory"}, nil},
		{"of others", []string{"example.com/release", "phasegpu.io/story", "phasegpu.io/", "phasegpu.io/re", "release", "kubernetes.io/psp"},
			[]corev1.ResourceName{"example.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/", "hugepages-2Mi"}, nil},
		{"annotations", []string{"phasegpu.io/relase", "hami.io/gpu-scheduler-polcy", "nvidia.com/Use-gpuuid"}, nil, []string{
			"annotation hami.io/gpu-scheduler-polcy is none of phasegpu's and changes nothing: is it misspelt? Known are hami.io/gpu-scheduler-policy",
			"annotation nvidia.com/Use-gpuuid is none of phasegpu's and changes nothing: is it misspelt? Known are nvidia.com/use-gpuuuid, nvidia.com/use-gputype",
			"annotation phasegpu.io/relase is none of phasegpu's and changes nothing: is it misspelt? Known are phasegpu.io/release",
		}},
		{"resources", nil, []corev1.ResourceName{"nvidia.com/gpumen", "nvidia.com/gpu"}, []string{
			"container app: resource nvidia.com/gpumen is none of phasegpu's and is left to others: is it misspelt? Known are nvidia.com/gpu, nvidia.com/gpumem, nvidia.com/gpumem-percentage, nvidia.com/gpucores",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: corev1.PodSpec{Containers: containers{{Name: "app"}}}}
			for _, key := range test.annotations {
				pod.Annotations[key] = "x"
			}
			list := corev1.ResourceList{}
			for _, name := range test.resources {
				list[name] = one
			}
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
			if diff := cmp.Diff(test.want, kube.Misspelt(pod)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
