package decide

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// API is a Store: the API server itself. Reads name no resourceVersion, so that they are answered from
// etcd or from a cache that has caught up with it (a consistent read).
type API struct{ Core corev1client.CoreV1Interface }

// Pod implements Store.
func (a API) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return a.Core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Node implements Store.
func (a API) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return a.Core.Nodes().Get(ctx, name, metav1.GetOptions{})
}

// PodsOn implements Store.
func (a API) PodsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	list, err := a.Core.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Annotate implements Store: one merge patch with the pod's UID and resourceVersion as preconditions.
func (a API) Annotate(ctx context.Context, pod *corev1.Pod, key, value string) error {
	var patch struct {
		Metadata struct {
			UID             types.UID         `json:"uid"`
			ResourceVersion string            `json:"resourceVersion"`
			Annotations     map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	patch.Metadata.UID, patch.Metadata.ResourceVersion = pod.UID, pod.ResourceVersion
	patch.Metadata.Annotations = map[string]string{key: value}
	body, err := json.Marshal(&patch)
	if err != nil {
		return err
	}
	_, err = a.Core.Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}
