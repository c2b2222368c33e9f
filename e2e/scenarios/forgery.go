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

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// forgeries is the story of records that others than phasegpu write.
func forgeries() []Scenario {
	return []Scenario{
		{16, "A record that a user writes is taken out, and one that phasegpu wrote cannot be changed", forgery},
	}
}

// forged are records that a pod's author would like to have.
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
	p.Must(p.bindPlainly(plain, "forged"))

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

// edit changes annotations of a pod in one of the ways that the API offers; nil takes one away.
type edit struct {
	way string
	do  func(context.Context, kubernetes.Interface, *corev1.Pod, map[string]any) error
	// applies tells that this way takes away only what it has set itself.
	applies bool
	// drops tells that the API server takes no annotations this way, so that there is nothing to refuse.
	drops bool
}

// edits are all ways to change a pod that exists.
func edits() []edit {
	patches := func(subresources ...string) func(types.PatchType) func(context.Context, kubernetes.Interface, *corev1.Pod, map[string]any) error {
		return func(kind types.PatchType) func(context.Context, kubernetes.Interface, *corev1.Pod, map[string]any) error {
			return func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, annotations map[string]any) error {
				body, options, err := patchBody(kind, pod, annotations)
				if err != nil {
					return err
				}
				_, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, kind, body, options, subresources...)
				return err
			}
		}
	}
	updates := func(write func(context.Context, kubernetes.Interface, *corev1.Pod) error) func(context.Context, kubernetes.Interface, *corev1.Pod, map[string]any) error {
		return func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, annotations map[string]any) error {
			pod = pod.DeepCopy()
			pod.ResourceVersion = "" // whatever was changed meanwhile
			for key, value := range annotations {
				if value == nil {
					delete(pod.Annotations, key)
				} else {
					metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value.(string))
				}
			}
			return write(ctx, client, pod)
		}
	}
	all := []edit{
		{way: "update", do: updates(func(ctx context.Context, c kubernetes.Interface, pod *corev1.Pod) error {
			_, err := c.CoreV1().Pods(pod.Namespace).Update(ctx, pod, metav1.UpdateOptions{})
			return err
		})},
		{way: "update of status", do: updates(func(ctx context.Context, c kubernetes.Interface, pod *corev1.Pod) error {
			_, err := c.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			return err
		})},
		{way: "update of resize", drops: true, do: updates(func(ctx context.Context, c kubernetes.Interface, pod *corev1.Pod) error {
			_, err := c.CoreV1().Pods(pod.Namespace).UpdateResize(ctx, pod.Name, pod, metav1.UpdateOptions{})
			return err
		})},
		{way: "update of ephemeralcontainers", drops: true, do: updates(func(ctx context.Context, c kubernetes.Interface, pod *corev1.Pod) error {
			_, err := c.CoreV1().Pods(pod.Namespace).UpdateEphemeralContainers(ctx, pod.Name, pod, metav1.UpdateOptions{})
			return err
		})},
	}
	for _, subresource := range []string{"", "status", "resize", "ephemeralcontainers"} {
		var path []string
		of := ""
		if subresource != "" {
			path, of = []string{subresource}, " of "+subresource
		}
		for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType, types.JSONPatchType, types.ApplyYAMLPatchType} {
			all = append(all, edit{
				way: string(kind) + of, do: patches(path...)(kind),
				applies: kind == types.ApplyYAMLPatchType,
				drops:   subresource == "resize" || subresource == "ephemeralcontainers",
			})
		}
	}
	return all
}

// patchBody writes a change of annotations as a patch of some kind.
func patchBody(kind types.PatchType, pod *corev1.Pod, annotations map[string]any) ([]byte, metav1.PatchOptions, error) {
	var o metav1.PatchOptions
	var what any = map[string]any{"metadata": map[string]any{"annotations": annotations}}
	switch kind {
	case types.JSONPatchType:
		var steps []map[string]any
		if pod.Annotations == nil {
			steps = append(steps, map[string]any{"op": "add", "path": "/metadata/annotations", "value": map[string]any{}})
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
		// Whoever applies an annotation owns it, and takes it away by applying without it.
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
	before, err := p.Cluster.Pod(p.Context(), pod)
	p.Must(err)
	refused, dropped := 0, 0
	for _, e := range edits() {
		for key, value := range forged() {
			changes := []map[string]any{{key: value}}
			if _, there := before.Annotations[key]; there && !e.applies {
				changes = append(changes, map[string]any{key: nil})
			}
			for _, change := range changes {
				now, err := p.Cluster.Pod(p.Context(), pod)
				p.Must(err)
				err = e.do(p.Context(), p.Cluster.Client, now, change)
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
	after, err := p.Cluster.Pod(p.Context(), pod)
	p.Must(err)
	if !maps.Equal(before.Annotations, after.Annotations) {
		p.Fatalf("annotations of pod %s were %v and are %v", pod.Name, before.Annotations, after.Annotations)
	}
	p.Logf("%s: %d attempts on its record are refused, %d are of no effect", pod.Name, refused, dropped)
}

// forbidden reports whether an error is the policy's.
func forbidden(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "phasegpu-records") && strings.Contains(err.Error(), "only phasegpu writes")
}

// forgeBindings tries to bind pods, with devices and without, by a Binding that brings a record.
func (p *Play) forgeBindings() {
	p.Helper()
	large := p.Submit(p.Pod("large", stack.App("train", stack.GPU(1, 24577))))
	p.Pending(large, "GPUs too small")
	other := p.Submit(p.Pod("other", stack.App("web")))
	for _, pod := range []*corev1.Pod{large, other} {
		for key, value := range forged() {
			binding := &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Annotations: map[string]string{key: value}},
				Target:     corev1.ObjectReference{Kind: "Node", Name: "forged"},
			}
			core := p.Cluster.Client.CoreV1()
			for way, err := range map[string]error{
				"pods/binding": core.Pods(pod.Namespace).Bind(p.Context(), binding, metav1.CreateOptions{}),
				"bindings":     core.RESTClient().Post().Namespace(pod.Namespace).Resource("bindings").Body(binding).Do(p.Context()).Error(),
			} {
				if !forbidden(err) {
					p.Fatalf("%s of pod %s with %s: %v", way, pod.Name, key, err)
				}
			}
		}
		now, err := p.Cluster.Pod(p.Context(), pod)
		p.Must(err)
		if now.Spec.NodeName != "" || len(now.Annotations) != len(pod.Annotations) {
			p.Fatalf("pod %s is on node %q with annotations %v", pod.Name, now.Spec.NodeName, now.Annotations)
		}
	}
	p.Logf("Bindings that bring a record are refused")
}

// bindPlainly binds a pod as any scheduler would.
func (p *Play) bindPlainly(pod *corev1.Pod, node string) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	return p.Cluster.Client.CoreV1().Pods(pod.Namespace).Bind(p.Context(), binding, metav1.CreateOptions{})
}

// unrelatedEdits are changes of a pod with a record that are nobody's business but its author's.
func (p *Play) unrelatedEdits(pod *corev1.Pod) {
	p.Helper()
	before, err := p.Cluster.Pod(p.Context(), pod)
	p.Must(err)
	pods := p.Cluster.Client.CoreV1().Pods(pod.Namespace)
	patch := func(kind types.PatchType, body string, subresources ...string) {
		p.Helper()
		_, err := pods.Patch(p.Context(), pod.Name, kind, []byte(body), metav1.PatchOptions{}, subresources...)
		p.Must(err)
	}
	patch(types.MergePatchType, `{"metadata":{"labels":{"team":"a"},"annotations":{"example.test/note":"changed","example.test/more":"x"}}}`)
	patch(types.MergePatchType, `{"metadata":{"annotations":{"example.test/more":null,"phasegpu.io/release":"hold"}}}`)
	patch(types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"train","image":"example.test/train:2"}]}}`)
	patch(types.StrategicMergePatchType, `{"status":{"conditions":[{"type":"example.test/ready","status":"True"}]}}`, "status")
	patch(types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"train","resources":{"limits":{"cpu":"2"},"requests":{"cpu":"2"}}}]}}`, "resize")
	patch(types.StrategicMergePatchType, `{"spec":{"ephemeralContainers":[{"name":"debug","image":"example.test/debug"}]}}`, "ephemeralcontainers")
	after, err := p.Cluster.Pod(p.Context(), pod)
	p.Must(err)
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

// ownersMay lets extender and refit service move the record, which the books follow, and nobody else of phasegpu.
func (p *Play) ownersMay(pod *corev1.Pod) {
	p.Helper()
	move := func(account, to string) error {
		// In the administrators' group it is the policy alone that may refuse.
		client, err := kubernetes.NewForConfig(p.Cluster.User("system:serviceaccount:phasegpu-system:"+account, "system:masters"))
		p.Must(err)
		body := fmt.Sprintf(`{"metadata":{"annotations":{"hami.io/vgpu-devices-allocated":"%s,NVIDIA,20480,0:;"}}}`, to)
		_, err = client.CoreV1().Pods(pod.Namespace).Patch(p.Context(), pod.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
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
