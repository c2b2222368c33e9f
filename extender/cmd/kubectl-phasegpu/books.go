package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
)

// What the extenders' manifests call them, and where they show their books.
const (
	extenderName = "phasegpu-scheduler" // the label app.kubernetes.io/name of the pods, and the Lease
	extenderPort = "8080"
	ledgerPath   = "/debug/ledger"
)

// source is where an extender's books are taken from.
type source struct {
	name   string
	leads  bool
	page   func(context.Context) (*ui.Ledger, error)
	pauses []time.Duration // between looks
}

// whileItMoves is how long to pause between looks at books that live: six seconds in all, which is far longer
// than an extender that works is behind.
func whileItMoves() []time.Duration {
	return []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second}
}

// extenders finds the extenders of the cluster, the leading one first. A warning names those that are not
// ready, whose books are not rebuilt yet.
func (c *cluster) extenders(ctx context.Context, namespace string) ([]source, []input.Problem, error) {
	lease, err := c.leases.Leases(namespace).Get(ctx, extenderName, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("the leading extender cannot be found by its Lease (is phasegpu in another namespace? give --namespace; or give --ledger): %w", err)
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_") // behind it stands a UUID
	}
	selector := labels.Set{"app.kubernetes.io/name": extenderName}.String()
	pods, err := c.client.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, nil, fmt.Errorf("the extenders' pods cannot be listed: %w", err)
	}
	var found []source
	var problems []input.Problem
	warn := func(object, format string, args ...any) {
		problems = append(problems, input.Problem{Source: input.Source{Object: object}, Err: fmt.Errorf(format, args...), Warning: true})
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !serves(pod) {
			warn("Pod "+namespace+"/"+pod.Name, "its extender is not ready, so its books are not compared")
			continue
		}
		found = append(found, source{
			name: "Pod " + namespace + "/" + pod.Name, leads: pod.Name == holder, pauses: whileItMoves(),
			page: func(ctx context.Context) (*ui.Ledger, error) {
				body, err := c.client.Pods(namespace).ProxyGet("", pod.Name, extenderPort, ledgerPath, nil).DoRaw(ctx)
				if err != nil {
					return nil, fmt.Errorf("its books cannot be read: %w", err)
				}
				return decodeLedger(bytes.NewReader(body))
			},
		})
	}
	if len(found) == 0 {
		return nil, problems, fmt.Errorf("none of %d pods with label %s in namespace %s has an extender that is ready", len(pods.Items), selector, namespace)
	}
	slices.SortStableFunc(found, func(x, y source) int { return cmp.Compare(rank(x), rank(y)) })
	if !found[0].leads {
		warn(fmt.Sprintf("Lease %s/%s", namespace, extenderName), "held by %q, which is no extender that is ready: nothing is bound until another takes over", holder)
	}
	return found, problems, nil
}

func rank(s source) int {
	if s.leads {
		return 0
	}
	return 1
}

// serves reports whether the extender of a pod is ready.
func serves(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == "extender" && c.Ready })
}

// fromElsewhere takes books from a URL, which is asked again at each look, or from a file.
func fromElsewhere(where string, stdin io.Reader) ([]source, error) {
	s := source{name: where}
	if strings.HasPrefix(where, "http://") || strings.HasPrefix(where, "https://") {
		s.pauses = whileItMoves()
		s.page = func(ctx context.Context) (*ui.Ledger, error) { return fetch(ctx, where) }
		return []source{s}, nil
	}
	in := stdin
	if where == "-" {
		s.name = "standard input"
	} else {
		file, err := os.Open(where)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	l, err := decodeLedger(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	s.page = func(context.Context) (*ui.Ledger, error) { return l, nil }
	return []source{s}, nil
}

func fetch(ctx context.Context, url string) (*ui.Ledger, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("its answer is %s: give the URL of an extender's %s", answer.Status, ledgerPath)
	}
	return decodeLedger(answer.Body)
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
		return nil, errors.New("this is no " + ledgerPath + " of an extender of this version: it names no release policy")
	}
	return &l, nil
}
