package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// forgeries has the scenario about records that others than phasegpu write.
func forgeries() []Scenario {
	return []Scenario{
		{16, "A record that a user writes is taken out, and one that phasegpu wrote cannot be changed", forgery},
	}
}

// forged are records that a pod's author may try to set.
func forged() map[string]string {
	return map[string]string{
		"hami.io/vgpu-devices-allocated": "GPU-forged-1,NVIDIA,1,0:;",
		"hami.io/amd-devices-allocated":  "AMD-0,AMD,1,0:;",
		"hami.io/vgpu-node":              "elsewhere",
		"hami.io/vgpu-time":              "1",
	}
}

func forgery(p *Play) {
	p.Node("forged", 24576, 24576)
	pod := p.Pod("forger", stack.App("train", stack.GPU(1, 20480), stack.Limit{"cpu": "1"}))
	pod.Annotations = forged()
	pod.Annotations["example.test/note"] = "mine"
	pod = p.Submit(pod)
	p.stripped(pod)
	pod = p.Scheduled(pod)
	p.recorded(pod, "GPU-forged-0,NVIDIA,20480,0:;")
	p.Reserved(20480, 0)

	plain := p.Pod("plain", stack.App("web"))
	plain.Annotations = forged()
	plain.Annotations["example.test/note"] = "mine"
	plain = p.Submit(plain)
	p.stripped(plain)
	p.Must(p.Cluster.Client.CoreV1().Pods(p.Namespace).Bind(p.Context(), bindingTo("forged", plain),
		metav1.CreateOptions{}))

	for _, target := range []*corev1.Pod{pod, plain} {
		p.Running(target, target.Spec.Containers[0].Name)
		p.forgeEdits(target)
	}
	p.forgeBindings()
	p.unrelatedEdits(pod)
	p.ownersMay(pod)
	p.Reserved(20480, 0)
}

// stripped expects that a pod was admitted without the records that its author wrote, and with the rest.
func (p *Play) stripped(pod *corev1.Pod) {
	p.Helper()
	for key := range forged() {
		if value, there := pod.Annotations[key]; there {
			p.Fatalf("pod %s was admitted with %s: %s", pod.Name, key, value)
		}
	}
	if pod.Annotations["example.test/note"] != "mine" {
		p.Fatalf("pod %s lost an annotation that is its author's: %v", pod.Name, pod.Annotations)
	}
	p.Logf("%s is admitted, without the records that its author wrote", pod.Name)
}

// edit changes annotations of a pod in one of the ways that the API offers; a nil value takes one away.
type edit struct {
	way string
	do  func(ctx context.Context, pods typedcorev1.PodInterface, pod *corev1.Pod, annotations map[string]any) error
	// applies tells that this way takes away only what it has set itself.
	applies bool
	// drops tells that the API server takes no annotations this way, so that there is nothing to refuse.
	drops bool
}

// edits are all ways to change a pod that exists.
func edits() []edit {
	var all []edit
	for _, subresource := range []string{"", "status", "resize", "ephemeralcontainers"} {
		drops := subresource == "resize" || subresource == "ephemeralcontainers"
		all = append(all, edit{way: "update " + subresource, do: update(subresource), drops: drops})
		for _, kind := range []types.PatchType{
			types.MergePatchType, types.StrategicMergePatchType, types.JSONPatchType, types.ApplyYAMLPatchType,
		} {
			all = append(all, edit{
				way: string(kind) + " " + subresource, do: patch(kind, subresource),
				applies: kind == types.ApplyYAMLPatchType, drops: drops,
			})
		}
	}
	return all
}

func update(subresource string) func(context.Context, typedcorev1.PodInterface, *corev1.Pod, map[string]any) error {
	return func(ctx context.Context, pods typedcorev1.PodInterface, pod *corev1.Pod,
		annotations map[string]any) (err error) {
		pod = pod.DeepCopy()
		pod.ResourceVersion = "" // so that changes since it was read are no conflict
		for key, value := range annotations {
			if value == nil {
				delete(pod.Annotations, key)
			} else {
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value.(string))
			}
		}
		o := metav1.UpdateOptions{}
		switch subresource {
		case "status":
			_, err = pods.UpdateStatus(ctx, pod, o)
		case "resize":
			_, err = pods.UpdateResize(ctx, pod.Name, pod, o)
		case "ephemeralcontainers":
			_, err = pods.UpdateEphemeralContainers(ctx, pod.Name, pod, o)
		default:
			_, err = pods.Update(ctx, pod, o)
		}
		return err
	}
}

func patch(
	kind types.PatchType, subresource string,
) func(context.Context, typedcorev1.PodInterface, *corev1.Pod, map[string]any) error {
	var path []string
	if subresource != "" {
		path = []string{subresource}
	}
	return func(ctx context.Context, pods typedcorev1.PodInterface, pod *corev1.Pod, annotations map[string]any) error {
		body, o, err := patchBody(kind, pod, annotations)
		if err == nil {
			_, err = pods.Patch(ctx, pod.Name, kind, body, o, path...)
		}
		return err
	}
}

// patchBody writes a change of annotations as a patch of some kind.
func patchBody(kind types.PatchType, pod *corev1.Pod, annotations map[string]any) ([]byte, metav1.PatchOptions, error) {
	var o metav1.PatchOptions
	var what any = map[string]any{"metadata": map[string]any{"annotations": annotations}}
	switch kind {
	case types.JSONPatchType:
		var steps []map[string]any
		if pod.Annotations == nil {
			steps = append(steps, map[string]any{"op": "add", "path": "/metadata/annotations",
				"value": map[string]any{}})
		}
		for key, value := range annotations {
			step := map[string]any{"op": "add", "path": "/metadata/annotations/" + escaped(key), "value": value}
			if value == nil {
				step = map[string]any{"op": "remove", "path": step["path"]}
			}
			steps = append(steps, step)
		}
		what = steps
	case types.ApplyYAMLPatchType:
		// Who applies an annotation owns it, and takes it away by applying without it.
		force := true
		o.FieldManager, o.Force = "forger", &force
		some := maps.Clone(annotations)
		maps.DeleteFunc(some, func(_ string, value any) bool { return value == nil })
		what = map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": pod.Name, "namespace": pod.Namespace, "annotations": some},
		}
	}
	body, err := json.Marshal(what)
	return body, o, err
}

// escaped is a key in a JSON pointer (RFC 6901).
func escaped(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// forgeEdits tries to set, change and remove each record of a pod in every way.
func (p *Play) forgeEdits(pod *corev1.Pod) {
	p.Helper()
	before := p.Get(pod)
	refused, dropped := 0, 0
	for _, e := range edits() {
		for key, value := range forged() {
			changes := []map[string]any{{key: value}}
			if _, there := before.Annotations[key]; there && !e.applies {
				changes = append(changes, map[string]any{key: nil})
			}
			for _, change := range changes {
				pods := p.Cluster.Client.CoreV1().Pods(pod.Namespace)
				err := e.do(p.Context(), pods, p.Get(pod), change)
				switch {
				case forbidden(err):
					refused++
				case err == nil && e.drops:
					dropped++
				default:
					p.Fatalf("%s of pod %s with %v: %v", e.way, pod.Name, change, err)
				}
			}
		}
	}
	after := p.Get(pod)
	if !maps.Equal(before.Annotations, after.Annotations) {
		p.Fatalf("annotations of pod %s were %v and are %v", pod.Name, before.Annotations, after.Annotations)
	}
	p.Logf("%s: %d attempts on its record are refused, %d are of no effect", pod.Name, refused, dropped)
}

// forbidden reports whether an error is the policy's.
func forbidden(err error) bool {
	return apierrors.IsForbidden(err) && stack.Lacks(err.Error(), "phasegpu-records", "only phasegpu writes") == nil
}

// forgeBindings tries to bind pods, with devices and without, by a Binding that brings a record.
func (p *Play) forgeBindings() {
	p.Helper()
	large := p.Submit(p.Pod("large", stack.App("train", stack.GPU(1, 24577))))
	p.Pending(large, "GPUs too small")
	other := p.Submit(p.Pod("other", stack.App("web")))
	for _, pod := range []*corev1.Pod{large, other} {
		for key, value := range forged() {
			binding := bindingTo("forged", pod)
			binding.Annotations = map[string]string{key: value}
			core := p.Cluster.Client.CoreV1()
			for way, err := range map[string]error{
				"pods/binding": core.Pods(pod.Namespace).Bind(p.Context(), binding, metav1.CreateOptions{}),
				"bindings": core.RESTClient().Post().
					Namespace(pod.Namespace).Resource("bindings").Body(binding).Do(p.Context()).Error(),
			} {
				if !forbidden(err) {
					p.Fatalf("%s of pod %s with %s: %v", way, pod.Name, key, err)
				}
			}
		}
		now := p.Get(pod)
		if now.Spec.NodeName != "" || len(now.Annotations) != len(pod.Annotations) {
			p.Fatalf("pod %s is on node %q with annotations %v", pod.Name, now.Spec.NodeName, now.Annotations)
		}
	}
	p.Logf("Bindings that bring a record are refused")
}

// bindingTo is a Binding as any scheduler would write it.
func bindingTo(node string, pod *corev1.Pod) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
}

// unrelatedEdits are changes of a pod with a record that its author may make.
func (p *Play) unrelatedEdits(pod *corev1.Pod) {
	p.Helper()
	before := p.Get(pod)
	const release, train = "phasegpu.io/release", `{"spec":{"containers":[{"name":"train",%s}]}}`
	for _, c := range []struct{ body, subresource string }{
		{`{"metadata":{"labels":{"team":"a"},"annotations":{"example.test/note":"changed","example.test/more":"x"}}}`,
			""},
		{`{"metadata":{"annotations":{"example.test/more":null,"` + release + `":"hold"}}}`, ""},
		{fmt.Sprintf(train, `"image":"example.test/train:2"`), ""},
		{`{"status":{"conditions":[{"type":"example.test/ready","status":"True"}]}}`, "status"},
		{fmt.Sprintf(train, `"resources":{"limits":{"cpu":"2"},"requests":{"cpu":"2"}}`), "resize"},
		{`{"spec":{"ephemeralContainers":[{"name":"debug","image":"example.test/debug"}]}}`, "ephemeralcontainers"},
	} {
		_, err := p.Cluster.Client.CoreV1().Pods(pod.Namespace).Patch(p.Context(), pod.Name,
			types.StrategicMergePatchType, []byte(c.body), metav1.PatchOptions{}, strings.Fields(c.subresource)...)
		p.Must(err)
	}
	after := p.Get(pod)
	for key := range forged() {
		if before.Annotations[key] != after.Annotations[key] {
			p.Fatalf("%s of pod %s was %q and is %q", key, pod.Name, before.Annotations[key], after.Annotations[key])
		}
	}
	if after.Annotations["example.test/note"] != "changed" || len(after.Spec.EphemeralContainers) != 1 {
		p.Fatalf("changes of pod %s were lost: %v", pod.Name, after.Annotations)
	}
	p.Logf("%s: changes of everything else are taken", pod.Name)
}

// ownersMay: extender and refit service may move the record, and the books follow; other accounts of phasegpu may not.
func (p *Play) ownersMay(pod *corev1.Pod) {
	p.Helper()
	move := func(account, to string) error {
		// In the administrators' group it is the policy alone that may refuse.
		client, err := kubernetes.NewForConfig(p.Cluster.User("system:serviceaccount:phasegpu-system:"+account,
			"system:masters"))
		p.Must(err)
		annotations := map[string]any{"hami.io/vgpu-devices-allocated": to + ",NVIDIA,20480,0:;"}
		return patch(types.MergePatchType, "")(p.Context(), client.CoreV1().Pods(pod.Namespace), pod, annotations)
	}
	for _, account := range []string{"phasegpu-webhook", "phasegpu-device-plugin", "phasegpu-extender-2"} {
		if err := move(account, "GPU-forged-1"); !forbidden(err) {
			p.Fatalf("service account %s writes a record: %v", account, err)
		}
	}
	p.Must(move("phasegpu-numarefit", "GPU-forged-1"))
	p.Reserved(0, 20480)
	p.Must(move("phasegpu-extender", "GPU-forged-0"))
	p.Reserved(20480, 0)
	p.Logf("extender and refit service may move a record, other service accounts of phasegpu may not")
}
