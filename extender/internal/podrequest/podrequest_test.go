package podrequest

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
		p, err := Parse(pod, Defaults{})
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
		"strict":        {"nvidia.com/use-gputype": "NVIDIA A100", "hami.io/numa-alignment": "strict"},
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

// Whose record may change after it is bound is alone in its node's gate.
func TestAlone(t *testing.T) {
	for alignment, want := range map[string]bool{"": false, "best-effort": true, "strict": true} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
		}}}}}
		if alignment != "" {
			pod.Annotations = map[string]string{"hami.io/numa-alignment": alignment}
		}
		if p, err := Parse(pod, Defaults{}); err != nil || p.Alone != want {
			t.Errorf("%q: alone %v (%v), want %v", alignment, p.Alone, err, want)
		}
	}
}
