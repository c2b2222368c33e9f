package ask

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods of one shape are taken to fit the same nodes, so what tells them apart must be in it.
func TestShape(t *testing.T) {
	shape := func(annotations map[string]string) string {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Annotations: annotations},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
			}}}},
		}
		p, err := Read(pod, Defaults{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Shape
	}
	one := shape(map[string]string{"nvidia.com/use-gputype": "NVIDIA A100"})
	for name, annotations := range map[string]map[string]string{
		"two words":     {"nvidia.com/use-gputype": "NVIDIA,A100"},
		"other list":    {"nvidia.com/nouse-gputype": "NVIDIA A100"},
		"none":          nil,
		"and a bracket": {"nvidia.com/use-gputype": "NVIDIA A100] ["},
	} {
		if shape(annotations) == one {
			t.Errorf("%s: %s", name, one)
		}
	}
	if again := shape(map[string]string{"nvidia.com/use-gputype": " NVIDIA A100, "}); again != one {
		t.Errorf("%s and %s ask for the same", again, one)
	}
}
