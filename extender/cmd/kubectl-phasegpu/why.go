package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/why"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
	"github.com/phasegpu/phasegpu/gen/kube"
)

const whyUsage = `Tells why a pod waits: for each reason the nodes that give it and, of those that come nearest, what each device
lacks in which phase, who holds it, and until which init container ends; quotas, gates and what the pod itself
asks for that no node has; and what would make it fit. Of a pod that has a node it tells what it holds there.

Usage:
  kubectl phasegpu why POD [-n NS]              a pod of the cluster
  kubectl phasegpu why POD [-n NS] -f OBJECTS   offline: the pod, nodes, bound pods and quotas from files

It decides as the extender would, from what the API server has, and as ` + "`fit`" + ` does: CPU, memory and the
scheduler's other concerns it leaves to kube-scheduler, whose own last words it repeats. Only the extender knows
how many pods wait at a node's GPU gate: it is asked through the API server, and when it does not answer, the
report says so.

You need the rights to get the pod, to list pods and nodes everywhere and resourcequotas in its namespace; for the
gates, in the extenders' namespace, to get leases and pods/proxy and to list pods.

Exit codes: 0 it has a node, or fits now; 1 it does not fit; 2 bad input.
`

func whyCommand(s streams) *cobra.Command {
	o := newOptions("why POD", "tell why a pod waits, and what would make it fit", whyUsage)
	o.readsFiles()
	o.readsPods()
	details := o.Int("details", 2, "`number` of nodes of each reason that are told device by device")
	system := o.String("extender-namespace", "phasegpu-system", "`namespace` of the extenders")
	o.complete("extender-namespace", o.namespaces)
	o.command.ValidArgsFunction = o.pods(1)
	return o.runs(s, func(ctx context.Context, s streams) (int, error) {
		release, err := o.check(&s)
		if err != nil {
			return 0, err
		}
		if o.NArg() != 1 {
			return 0, errors.New("name one pod (see why --help)")
		}
		w, err := o.world(ctx, s, o.Arg(0), *system)
		if err != nil {
			return 0, err
		}
		// What cannot be read of others is in the answer wherever it matters to the pod.
		on := fit.New(w.nodes, w.pods, w.quotas, fit.Policies{Release: release}, func(string, error) {})
		result := why.Of(why.Question{Pod: w.pod, Cluster: on, Release: release, Details: *details, Inside: w.inside, Books: w.books, Now: s.now()})
		if w.blind != nil && result.State == why.Waiting {
			result.Notes = append(result.Notes, "how many pods wait at GPU gates is not known: "+w.blind.Error())
		}
		err = o.write(s, result, func() error { return result.Text(s.out, s.screen) })
		if err == nil && result.Waits() {
			return exitNegative, nil
		}
		return exitFine, err
	})
}

// world is a pod and, when it waits, what it waits for.
type world struct {
	pod    *corev1.Pod
	nodes  []*corev1.Node
	pods   []*corev1.Pod
	quotas []*corev1.ResourceQuota
	inside []why.Inside
	books  *ui.Ledger // the leading extender's, nil when they are not known
	blind  error      // why they are not
}

// world reads the files, or asks the cluster.
func (o *options) world(ctx context.Context, s streams, name, system string) (*world, error) {
	if len(o.files) == 0 {
		c, err := o.cluster()
		if err != nil {
			return nil, errOffline(err)
		}
		return c.world(ctx, name, system)
	}
	set, err := o.objects(s)
	if err != nil {
		return nil, err
	}
	w := &world{nodes: set.Nodes, quotas: set.Quotas}
	if w.pod, err = o.find(set, name); err != nil {
		return nil, err
	}
	for _, pod := range set.Pods {
		w.add(pod.Pod)
	}
	return w, nil
}

// add adds a pod of the cluster, if it has devices and a node, or room is kept for it on one.
func (w *world) add(pod *corev1.Pod) {
	switch {
	case !kube.Tracked(pod):
		return
	case pod.Spec.NodeName == "":
		if pod.Status.NominatedNodeName != "" {
			w.pods = append(w.pods, pod)
		}
		return
	}
	if inside, ok := why.InsideGate(pod); ok {
		w.inside = append(w.inside, inside)
	}
	// They may be many: only what is about devices is kept.
	if reduced, err := kube.Transform(pod); err == nil {
		pod, _ = reduced.(*corev1.Pod) // it is tracked
	}
	w.pods = append(w.pods, pod)
}

// world asks for a pod and, when it waits, for all that it could be placed on, and the extender for its gates.
func (c *cluster) world(ctx context.Context, name, system string) (*world, error) {
	pod, err := c.pod(ctx, name)
	if err != nil {
		return nil, err
	}
	w := &world{pod: pod}
	if pod.Spec.NodeName != "" || ended(pod) || !kube.Asks(&pod.Spec) {
		return w, nil
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		w.books, w.blind = c.leading(ctx, system)
	}()
	err = c.each(ctx, onNodes(), c.namespace, collector{
		node: func(node *corev1.Node) {
			node.ManagedFields, node.Status.Images = nil, nil // most of a node, and nothing that is looked at
			w.nodes = append(w.nodes, node)
		},
		pod:   w.add,
		quota: func(quota *corev1.ResourceQuota) { w.quotas = append(w.quotas, quota) },
	})
	<-answered
	return w, err
}

// askTime is how long to wait for the extender, of which not much is wanted.
const askTime = 5 * time.Second

// leading returns the books of the leading extender.
func (c *cluster) leading(ctx context.Context, namespace string) (*ui.Ledger, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	extenders, _, err := c.extenders(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return extenders[0].page(ctx)
}
