package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/e2e/process"
)

// Amount is slots, MiB and percent of one device's compute.
type Amount struct {
	Slots     int64 `json:"slots"`
	MemoryMiB int64 `json:"memoryMiB"`
	Cores     int64 `json:"cores"`
}

// Ledger is the extender's page of its books, as far as tests read it; extender/internal/page explains it.
type Ledger struct {
	Generation uint64       `json:"generation"` // grows with every change
	Consistent bool         `json:"consistent"`
	Seen       uint64       `json:"seen"` // resourceVersion up to which pods were seen
	Nodes      []LedgerNode `json:"nodes"`
	Namespaces []struct {
		Name string `json:"name"`
		Used []struct {
			Family    string `json:"family"`
			Devices   int64  `json:"devices"`
			MemoryMiB int64  `json:"memoryMiB"`
			Cores     int64  `json:"cores"`
		} `json:"used"`
		Quotas []struct {
			Quota    string `json:"quota"`
			Resource string `json:"resource"`
			Used     int64  `json:"used"`
			Max      int64  `json:"max"`
		} `json:"quotas"`
	} `json:"namespaces"`
	Gates []struct {
		Node        string   `json:"node"`
		Inside      []string `json:"inside"`
		Waiting     int      `json:"waiting"`
		ShutSeconds float64  `json:"shutSeconds"`
	} `json:"gates"`
}

// LedgerNode is one node's book.
type LedgerNode struct {
	Name       string         `json:"name"`
	Known      bool           `json:"known"`
	Unreadable string         `json:"unreadable"`
	Devices    []LedgerDevice `json:"devices"`
	Missing    []struct {
		UUID     string `json:"uuid"`
		Reserved Amount `json:"reserved"`
	} `json:"missing"`
	Pods []LedgerPod `json:"pods"`
}

// LedgerDevice is what a device has and what is reserved on it.
type LedgerDevice struct {
	UUID      string `json:"uuid"`
	Family    string `json:"family"`
	Capacity  Amount `json:"capacity"`
	Reserved  Amount `json:"reserved"`
	Exclusive bool   `json:"exclusive"`
	Healthy   bool   `json:"healthy"`
	Cordoned  bool   `json:"cordoned"`
}

// Node finds a node; nil when it is not listed.
func (l *Ledger) Node(name string) *LedgerNode {
	for i := range l.Nodes {
		if l.Nodes[i].Name == name {
			return &l.Nodes[i]
		}
	}
	return nil
}

// Device finds a device on a node, or on any node when none is named; nil when it is not listed.
func (l *Ledger) Device(node, uuid string) *LedgerDevice {
	for _, n := range l.Nodes {
		if node != "" && n.Name != node {
			continue
		}
		for i := range n.Devices {
			if n.Devices[i].UUID == uuid {
				return &n.Devices[i]
			}
		}
	}
	return nil
}

// LedgerPod is what one pod is charged.
type LedgerPod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Assumed   bool   `json:"assumed"`
	Problem   string `json:"problem"`
	Devices   []struct {
		UUID     string `json:"uuid"`
		Family   string `json:"family"`
		Reserved Amount `json:"reserved"`
	} `json:"devices"`
}

// LedgerURL is where the extender shows its books.
func (s *Stack) LedgerURL() string { return s.extenderHealth + ledgerPath }

const ledgerPath = "/debug/ledger"

// Ledger asks the extender for its books.
func (c *Cluster) Ledger(ctx context.Context) (*Ledger, error) {
	body, err := c.Page(ctx, ledgerPath)
	if err != nil {
		return nil, err
	}
	var l Ledger
	if err := json.Unmarshal(body, &l); err != nil {
		return nil, fmt.Errorf("the extender's /debug/ledger: %w", err)
	}
	return &l, nil
}

// Reserved returns what is reserved on each device, by "node/uuid"; devices on which nothing is are left out.
func (l *Ledger) Reserved() map[string]Amount {
	reserved := map[string]Amount{}
	for _, n := range l.Nodes {
		for _, d := range n.Devices {
			if d.Reserved != (Amount{}) {
				reserved[n.Name+"/"+d.UUID] = d.Reserved
			}
		}
		for _, d := range n.Missing {
			reserved[n.Name+"/"+d.UUID] = d.Reserved
		}
	}
	return reserved
}

// Used returns what each namespace is charged, by "namespace/family"; Slots counts devices, memory and cores
// are times devices. Families of which nothing is charged are left out.
func (l *Ledger) Used() map[string]Amount {
	used := map[string]Amount{}
	for _, n := range l.Namespaces {
		for _, u := range n.Used {
			if a := (Amount{u.Devices, u.MemoryMiB, u.Cores}); a != (Amount{}) {
				used[n.Name+"/"+u.Family] = a
			}
		}
	}
	return used
}

// Pod returns what a pod is charged, nil when nothing is.
func (l *Ledger) Pod(pod *corev1.Pod) *LedgerPod {
	for _, n := range l.Nodes {
		for i := range n.Pods {
			p := &n.Pods[i]
			if p.Namespace == pod.Namespace && p.Name == pod.Name && (pod.UID == "" || p.UID == string(pod.UID)) {
				return p
			}
		}
	}
	return nil
}

// AwaitReserved waits until the memory in MiB that is reserved for a pod over all devices is as given.
func (c *Cluster) AwaitReserved(ctx context.Context, pod *corev1.Pod, memoryMiB int64) error {
	what := fmt.Sprintf("pod %s/%s has %d MiB reserved", pod.Namespace, pod.Name, memoryMiB)
	return c.AwaitBooks(ctx, what, func(l *Ledger) error {
		got := int64(0)
		if p := l.Pod(pod); p != nil {
			for _, d := range p.Devices {
				got += d.Reserved.MemoryMiB
			}
		}
		if got != memoryMiB {
			return fmt.Errorf("it has %d MiB", got)
		}
		return nil
	})
}

// AwaitDevice waits until so many MiB are reserved on a device, on any node.
func (c *Cluster) AwaitDevice(ctx context.Context, uuid string, memoryMiB int64) error {
	return c.AwaitBooks(ctx, fmt.Sprintf("device %s has %d MiB reserved", uuid, memoryMiB), func(l *Ledger) error {
		d := l.Device("", uuid)
		if d == nil || d.Reserved.MemoryMiB != memoryMiB {
			return fmt.Errorf("the books have %+v", d)
		}
		return nil
	})
}

// AwaitNode waits until the extender knows a node with these devices and their capacities.
func (c *Cluster) AwaitNode(ctx context.Context, node string, devices []device.Device) error {
	return c.AwaitBooks(ctx, "the extender knows node "+node, func(l *Ledger) error {
		if n := l.Node(node); n == nil || !n.Known {
			return errors.New("it does not")
		}
		for _, d := range devices {
			there := l.Device(node, d.UUID)
			if there == nil || there.Capacity != Amount(d.Capacity) || there.Healthy != d.Healthy ||
				there.Cordoned != d.Cordoned {
				return fmt.Errorf("it has device %s as %+v", d.UUID, there)
			}
		}
		return nil
	})
}

// AwaitNoNode waits until the extender has removed a node.
func (c *Cluster) AwaitNoNode(ctx context.Context, node string) error {
	return c.AwaitBooks(ctx, "the extender has removed node "+node, func(l *Ledger) error {
		if l.Node(node) != nil {
			return errors.New("it lists it")
		}
		return nil
	})
}

// AwaitSeen waits until the extender has seen a pod as the API server has it now, and all earlier changes of pods.
func (c *Cluster) AwaitSeen(ctx context.Context, pod *corev1.Pod) error {
	now, err := c.Pod(ctx, pod)
	if err != nil {
		return err
	}
	version, err := strconv.ParseUint(now.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("pod %s/%s: resourceVersion %q: %w", pod.Namespace, pod.Name, now.ResourceVersion, err)
	}
	return c.AwaitBooks(ctx, fmt.Sprintf("the extender has seen pod %s/%s", pod.Namespace, pod.Name),
		func(l *Ledger) error {
			if l.Seen < version {
				return fmt.Errorf("it has seen version %d, not %d", l.Seen, version)
			}
			return nil
		})
}

// empty returns an error if the books have something of a namespace.
func (l *Ledger) empty(namespace string) error {
	for _, n := range l.Namespaces {
		if n.Name == namespace && len(n.Quotas) > 0 {
			return fmt.Errorf("the books have quota %s", n.Quotas[0].Quota)
		}
	}
	for _, n := range l.Nodes {
		for _, p := range n.Pods {
			if p.Namespace == namespace {
				return fmt.Errorf("the books have pod %s on node %s", p.Name, n.Name)
			}
		}
	}
	return nil
}

// ExtenderMetrics returns the extender's metrics as Prometheus reads them.
func (c *Cluster) ExtenderMetrics(ctx context.Context) (string, error) {
	body, err := c.Page(ctx, "/metrics")
	return string(body), err
}

// WebhookMetrics returns the webhook's metrics as Prometheus reads them.
func (s *Stack) WebhookMetrics(ctx context.Context) (string, error) {
	body, err := process.Get(ctx, http.DefaultClient, s.webhookHealth+"/metrics")
	return string(body), err
}

// Metric finds the value of a series, such as `phasegpu_x_total{node="n1"}`, in what Prometheus reads. There
// is none when ok is false.
func Metric(metrics, series string) (value string, ok bool) {
	for line := range strings.Lines(metrics) {
		if rest, found := strings.CutPrefix(line, series+" "); found {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}
