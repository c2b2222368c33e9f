package decide

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/gen/refit"
)

const record = "hami.io/vgpu-devices-allocated"

// world is an API server that holds one pod and one node.
type world struct {
	pod      *corev1.Pod // nil when it is gone
	node     *corev1.Node
	versions int
	reads    int
	writes   int
	// before is what happens just before the nth write (from 1) is carried out; its error is returned and the
	// write is not carried out. after is what the writer is told of the nth write.
	before, after func(n int) error
	read          func(what string) error // an error of a read
}

// newWorld holds a pod of an init container with 30 GiB on GPU-a and an app with 20 on GPU-b of 40.
func newWorld() *world {
	w := &world{node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: map[string]string{
		"hami.io/node-nvidia-register": `[{"id":"GPU-a","count":10,"devmem":40960,"devcore":100,"type":"A100","health":true},
			{"id":"GPU-b","count":10,"devmem":40960,"devcore":100,"type":"A100","health":true},
			{"id":"GPU-c","count":10,"devmem":40960,"devcore":100,"type":"A100","health":true}]`}}}}
	w.node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("20")}
	w.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", UID: "uid-1", Annotations: map[string]string{
			"hami.io/numa-alignment": "strict", record: "GPU-a,NVIDIA,30720,0:;GPU-b,NVIDIA,20480,0:;",
		}},
		Spec: corev1.PodSpec{
			NodeName:       "node",
			InitContainers: []corev1.Container{{Name: "init", Resources: gpu("30720")}},
			Containers:     []corev1.Container{{Name: "app", Resources: gpu("20480")}},
		},
	}
	w.changed()
	return w
}

func gpu(memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{
		"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": resource.MustParse(memory),
	}}
}

// changed gives the pod its next resourceVersion.
func (w *world) changed() {
	w.versions++
	w.pod.ResourceVersion = strconv.Itoa(w.versions)
}

func (w *world) question(allowed ...string) *refit.Request {
	return &refit.Request{
		Pod: refit.Pod{Namespace: "team", Name: "p", UID: "uid-1"}, Node: "node",
		Container: refit.Container{Name: "init", Position: 0}, Family: "NVIDIA", Allowed: allowed,
	}
}

func notFound() error { return apierrors.NewNotFound(corev1.Resource("pods"), "p") }

// call is what every call goes through.
func (w *world) call(ctx context.Context, what string) error {
	w.reads++
	if w.read != nil {
		if err := w.read(what); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *world) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	if err := w.call(ctx, "pod"); err != nil {
		return nil, err
	}
	if w.pod == nil || w.pod.Namespace != namespace || w.pod.Name != name {
		return nil, notFound()
	}
	return w.pod.DeepCopy(), nil
}

func (w *world) Node(ctx context.Context, name string) (*corev1.Node, error) {
	if err := w.call(ctx, "node"); err != nil {
		return nil, err
	}
	if w.node == nil || w.node.Name != name {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	return w.node, nil
}

func (w *world) PodsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	if err := w.call(ctx, "pods"); err != nil {
		return nil, err
	}
	if w.pod == nil || w.pod.Spec.NodeName != node {
		return nil, nil
	}
	return []corev1.Pod{*w.pod.DeepCopy()}, nil
}

func (w *world) Annotate(ctx context.Context, pod *corev1.Pod, key, value string) error {
	w.writes++
	n := w.writes
	if w.before != nil {
		if err := w.before(n); err != nil {
			return err
		}
	}
	if err := w.write(pod.UID, pod.ResourceVersion, key, value); err != nil {
		return err
	}
	if w.after != nil {
		return w.after(n)
	}
	return ctx.Err()
}

// write is what the API server does with a patch.
func (w *world) write(uid types.UID, version, key, value string) error {
	switch {
	case w.pod == nil:
		return notFound()
	case w.pod.UID != uid || w.pod.ResourceVersion != version:
		return apierrors.NewConflict(corev1.Resource("pods"), "p", fmt.Errorf("it has changed"))
	}
	w.pod.Annotations[key] = value
	w.changed()
	return nil
}

func (w *world) record(t *testing.T) string {
	t.Helper()
	if w.pod == nil {
		return ""
	}
	return w.pod.Annotations[record]
}
