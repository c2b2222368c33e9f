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

// Following is whether kubelet would allocate now.
type Following interface {
	// Get also returns a channel that is closed when that changes.
	Get() (bool, <-chan struct{})
}

// Publisher is called after every patch.
type Publisher interface{ Published(error) }

// Publish keeps the node's inventory annotation equal to the current devices until ctx ends. It patches only when the
// two differ. It watches its node, because the annotation can be lost (a node is deleted and registered again) or
// edited.
//
// While kubelet would not allocate, all devices are published as unhealthy: kubelet itself needs up to 10 s to report
// that, and rejects what is placed there in the meantime.
func Publish(
	ctx context.Context, client kubernetes.Interface, node string, current *Current, offered Following, done Publisher,
) {
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

	var answered any // the node as seen at the last successful patch, whose effect is seen later
	for {
		devices, known, changed := current.Get()
		offer, turned := offered.Get()
		if !offer {
			devices = unhealthy(devices)
		}
		var retry <-chan time.Time
		if object, exists, _ := informer.GetStore().GetByKey(node); exists && known && object != answered {
			if patched, err := publish(ctx, client, object.(*corev1.Node), devices); patched {
				done.Published(err)
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

// Withdraw publishes all devices as unhealthy, if they are known.
func Withdraw(ctx context.Context, client kubernetes.Interface, node string, current *Current) error {
	devices, known, _ := current.Get()
	if !known {
		return nil
	}
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()
	now, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{FieldSelector: selector})
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

// unhealthy returns the devices as unhealthy.
func unhealthy(devices []device.Device) []device.Device {
	devices = slices.Clone(devices)
	for i := range devices {
		devices[i].Healthy = false
	}
	return devices
}

// publish patches the node unless its annotation is right.
func publish(
	ctx context.Context, client kubernetes.Interface, node *corev1.Node, devices []device.Device,
) (patched bool, err error) {
	key := classify.Family(Family).NodeAnnotation
	text, err := wire.EncodeInventory(devices)
	if err != nil {
		return true, err // cannot be: Shape.Devices has encoded them
	}
	if now, ok := node.Annotations[key]; ok && now == text {
		return false, nil
	}
	// With the UID the patch fails on a node that was deleted and registered again.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "annotations": map[string]string{key: text},
	}})
	if err != nil {
		return true, err
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		return true, fmt.Errorf("publishing the inventory on node %s: %w", node.Name, err)
	}
	return true, nil
}
