package stack

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
)

// AwaitNode waits until the extender knows a node with these devices and their capacities.
func (c *Cluster) AwaitNode(ctx context.Context, node string, devices []device.Device) error {
	return Eventually(ctx, fmt.Sprintf("the extender knows node %s", node), func(ctx context.Context) error {
		l, err := c.Ledger(ctx)
		if err != nil {
			return err
		}
		for _, d := range devices {
			there := l.Device(node, d.UUID)
			if there == nil {
				return fmt.Errorf("it does not list device %s", d.UUID)
			}
			if there.Capacity != Amount(d.Capacity) || there.Healthy != d.Healthy || there.Cordoned != d.Cordoned {
				return fmt.Errorf("it has device %s as %+v", d.UUID, *there)
			}
		}
		for _, n := range l.Nodes {
			if n.Name == node && n.Known {
				return nil
			}
		}
		return errors.New("it does not")
	})
}

// AwaitNoNode waits until the extender has forgotten a node.
func (c *Cluster) AwaitNoNode(ctx context.Context, node string) error {
	return Eventually(ctx, fmt.Sprintf("the extender has forgotten node %s", node), func(ctx context.Context) error {
		l, err := c.Ledger(ctx)
		if err != nil {
			return err
		}
		for _, n := range l.Nodes {
			if n.Name == node {
				return errors.New("it lists it")
			}
		}
		return nil
	})
}

// AwaitSeen waits until the extender has seen a pod as the API server has it now, and everything that was
// done to pods before.
func (c *Cluster) AwaitSeen(ctx context.Context, pod *corev1.Pod) error {
	now, err := c.Pod(ctx, pod)
	if err != nil {
		return err
	}
	version, err := strconv.ParseUint(now.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("pod %s/%s: resourceVersion %q: %w", pod.Namespace, pod.Name, now.ResourceVersion, err)
	}
	return Eventually(ctx, fmt.Sprintf("the extender has seen pod %s/%s", pod.Namespace, pod.Name), func(ctx context.Context) error {
		l, err := c.Ledger(ctx)
		if err == nil && l.Seen < version {
			err = fmt.Errorf("it has seen version %d, not %d", l.Seen, version)
		}
		return err
	})
}

// AwaitDevice waits until so many MiB are reserved on a device, wherever it is.
func (c *Cluster) AwaitDevice(ctx context.Context, uuid string, memoryMiB int64) error {
	return Eventually(ctx, fmt.Sprintf("device %s has %d MiB reserved", uuid, memoryMiB), func(ctx context.Context) error {
		l, err := c.Ledger(ctx)
		if err != nil {
			return err
		}
		d := l.Device("", uuid)
		if d == nil {
			return errors.New("no node lists it")
		}
		if d.Reserved.MemoryMiB != memoryMiB {
			return fmt.Errorf("it has %d MiB", d.Reserved.MemoryMiB)
		}
		return nil
	})
}
