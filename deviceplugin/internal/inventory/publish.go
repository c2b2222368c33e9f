package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// retryAfter is how long after a refused patch the next is tried.
const retryAfter = 2 * time.Second

// Publish keeps the node's inventory annotation equal to the current devices until ctx ends: it patches
// when the two differ and at no other time. It watches its own node, because an annotation can be lost (a
// node is deleted and registered again) or edited. done is told of every patch.
//
// offered reports whether kubelet would allocate now, and returns a channel that is closed when that changes.
// While it would not, all devices are published as unhealthy: kubelet itself needs up to 10 s to say so, and
// rejects what is placed there meanwhile.
func Publish(ctx context.Context, client kubernetes.Interface, node string, current *Current, offered func() (bool, <-chan struct{}), done func(error)) {
	seen := make(chan struct{}, 1)
	wake := func() {
		select {
		case seen <- struct{}{}:
		default:
		}
	}
	informer := coreinformers.NewFilteredNodeInformer(client, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()
	})
	_ = informer.SetTransform(kube.Transform) // cannot fail: it has not begun
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, UpdateFunc: func(_, _ any) { wake() }, DeleteFunc: func(any) { wake() },
	})
	go informer.RunWithContext(ctx)

	var answered any // the node as it was seen when the last patch went through; what it did is seen later
	for {
		devices, known, changed := current.Get()
		offer, turned := offered()
		if !offer {
			devices = unhealthy(devices)
		}
		var retry <-chan time.Time
		if object, exists, _ := informer.GetStore().GetByKey(node); exists && known && object != answered {
			if patched, err := publish(ctx, client, object.(*corev1.Node), devices); patched {
				done(err)
				if err != nil {
					retry = time.After(retryAfter)
				} else {
					answered = object
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-turned:
		case <-seen:
		case <-retry:
		}
	}
}

// Withdraw publishes all devices as unhealthy, if any are known: nobody will serve them soon.
func Withdraw(ctx context.Context, client kubernetes.Interface, node string, current *Current) error {
	devices, known, _ := current.Get()
	if !known {
		return nil
	}
	now, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()})
	if err != nil {
		return fmt.Errorf("withdrawing the inventory of node %s: %w", node, err)
	}
	for i := range now.Items {
		if _, err := publish(ctx, client, &now.Items[i], unhealthy(devices)); err != nil {
			return err
		}
	}
	return nil
}

// unhealthy returns devices none of which is healthy.
func unhealthy(devices []device.Device) []device.Device {
	devices = slices.Clone(devices)
	for i := range devices {
		devices[i].Healthy = false
	}
	return devices
}

// publish patches the node unless its annotation says what it should.
func publish(ctx context.Context, client kubernetes.Interface, node *corev1.Node, devices []device.Device) (patched bool, err error) {
	key := classify.Family(Family).NodeAnnotation
	text, err := wire.EncodeInventory(devices)
	if err != nil {
		return true, err // cannot be: Shape.Devices has encoded them
	}
	if now, ok := node.Annotations[key]; ok && now == text {
		return false, nil
	}
	// The UID makes sure that a node deleted and registered again is first looked at again.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "annotations": map[string]string{key: text},
	}})
	if err != nil {
		return true, err
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return true, fmt.Errorf("publishing the inventory on node %s: %w", node.Name, err)
	}
	return true, nil
}
