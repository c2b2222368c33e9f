package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// PodReserved returns the memory in MiB that is reserved for a pod over all devices, 0 when nothing is.
func (c *Cluster) PodReserved(ctx context.Context, pod *corev1.Pod) (int64, error) {
	l, err := c.Ledger(ctx)
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	if p := l.Pod(pod); p != nil {
		for _, d := range p.Devices {
			sum += d.Reserved.MemoryMiB
		}
	}
	return sum, nil
}

// AwaitReserved waits until the memory in MiB that is reserved for a pod over all devices is as given.
func (c *Cluster) AwaitReserved(ctx context.Context, pod *corev1.Pod, memoryMiB int64) error {
	return Eventually(ctx, fmt.Sprintf("pod %s/%s has %d MiB reserved", pod.Namespace, pod.Name, memoryMiB), func(ctx context.Context) error {
		got, err := c.PodReserved(ctx, pod)
		if err == nil && got != memoryMiB {
			err = fmt.Errorf("it has %d MiB", got)
		}
		return err
	})
}

// ExtenderMetrics returns the extender's metrics as Prometheus reads them.
func (c *Cluster) ExtenderMetrics(ctx context.Context) (string, error) {
	body, err := c.Page(ctx, "/metrics")
	return string(body), err
}

// WebhookMetrics returns the webhook's metrics as Prometheus reads them.
func (s *Stack) WebhookMetrics(ctx context.Context) (string, error) {
	body, err := get(ctx, s.webhookHealth+"/metrics")
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
