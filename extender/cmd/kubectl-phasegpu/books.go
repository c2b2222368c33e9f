package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
	"github.com/phasegpu/phasegpu/gen/admission"
)

// What the extenders' manifests call them, and where they show their books.
const (
	extenderName = admission.SchedulerName // the label app.kubernetes.io/name of the pods, and the Lease
	extenderPort = "8080"
	ledgerPath   = "/debug/ledger"
)

// extender is where an extender's books are read.
type extender struct {
	name   string
	leads  bool
	read   func(context.Context) (*ui.Ledger, error)
	pauses []time.Duration // between comparisons
}

// pauses between comparisons of live books: six seconds in all, far longer than a working extender lags.
func pauses() []time.Duration {
	const ms = time.Millisecond
	return []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1500 * ms, 3000 * ms}
}

// extenders finds the extenders of the cluster, the leading one first. A warning names those that are not
// ready, whose books are not rebuilt yet.
func (c *cluster) extenders(ctx context.Context, namespace string) ([]extender, []input.Problem, error) {
	lease, err := c.leases.Leases(namespace).Get(ctx, extenderName, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("the leading extender cannot be found by its Lease "+
			"(is phasegpu in another namespace? give --namespace; or give --ledger): %w", err)
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_") // a UUID follows
	}
	selector := labels.Set{"app.kubernetes.io/name": extenderName}.String()
	pods, err := c.client.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, nil, fmt.Errorf("the extenders' pods cannot be listed: %w", err)
	}
	var found []extender
	var problems []input.Problem
	warn := func(object, format string, args ...any) {
		problems = append(problems, input.Warning(object, fmt.Errorf(format, args...)))
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !serves(pod) {
			warn("Pod "+namespace+"/"+pod.Name, "its extender is not ready, so its books are not compared")
			continue
		}
		found = append(found, extender{
			name: "Pod " + namespace + "/" + pod.Name, leads: pod.Name == holder, pauses: pauses(),
			read: func(ctx context.Context) (*ui.Ledger, error) {
				body, err := c.client.Pods(namespace).ProxyGet("", pod.Name, extenderPort, ledgerPath, nil).DoRaw(ctx)
				if err != nil {
					return nil, fmt.Errorf("its books cannot be read: %w", err)
				}
				return decodeLedger(bytes.NewReader(body))
			},
		})
	}
	if len(found) == 0 {
		return nil, problems, fmt.Errorf("none of %d pods with label %s in namespace %s has an extender that is ready",
			len(pods.Items), selector, namespace)
	}
	slices.SortStableFunc(found, func(x, y extender) int { return cmp.Compare(rank(x), rank(y)) })
	if !found[0].leads {
		warn(fmt.Sprintf("Lease %s/%s", namespace, extenderName),
			"held by %q, which is no extender that is ready: nothing is bound until another takes over", holder)
	}
	return found, problems, nil
}

func rank(e extender) int {
	if e.leads {
		return 0
	}
	return 1
}

// serves reports whether the extender of a pod is ready.
func serves(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == "extender" && c.Ready
	})
}

// fromElsewhere reads books from a URL, anew each time, or once from a file.
func fromElsewhere(where string, stdin io.Reader) ([]extender, error) {
	e := extender{name: where}
	if input.IsURL(where) {
		e.pauses = pauses()
		e.read = func(ctx context.Context) (*ui.Ledger, error) {
			in, err := input.Open(ctx, where, nil)
			if err != nil {
				return nil, fmt.Errorf("%w: give the URL of an extender's %s", err, ledgerPath)
			}
			defer in.Close()
			return decodeLedger(in)
		}
		return []extender{e}, nil
	}
	if where == "-" {
		e.name = "standard input"
	}
	in, err := input.Open(context.Background(), where, stdin)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	l, err := decodeLedger(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	e.read = func(context.Context) (*ui.Ledger, error) { return l, nil }
	return []extender{e}, nil
}

// maxLedger bounds a page: 40,000 pods are about 20 MB.
const maxLedger = 1 << 28

func decodeLedger(in io.Reader) (*ui.Ledger, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxLedger+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxLedger {
		return nil, fmt.Errorf("larger than %d MiB: that is no extender's %s", maxLedger>>20, ledgerPath)
	}
	var l ui.Ledger
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("this is no extender's %s: %w", ledgerPath, err)
	}
	if l.Release == "" {
		return nil, fmt.Errorf("this is no %s of an extender of this version: it names no release policy", ledgerPath)
	}
	return &l, nil
}
