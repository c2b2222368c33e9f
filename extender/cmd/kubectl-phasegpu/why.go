package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/why"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
	"github.com/phasegpu/phasegpu/gen/kube"
)

const whyUsage = `Explains why a pod waits: for each reason the nodes that give it and, of those that come nearest, what each
device lacks in which phase, who holds it, and until which init container ends; quotas, gates and what the pod
itself asks for that no node has; and what would make it fit. Of a pod that has a node it shows what it holds.

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

func whyCommand(s session) *cobra.Command {
	o := newOptions(s, "why POD", "report why a pod waits, and what would make it fit", whyUsage)
	o.readsPods()
	details := o.Int("details", 2, "`number` of nodes of each reason that are reported device by device")
	system := o.String("extender-namespace", "phasegpu-system", "`namespace` of the extenders")
	complete(o.command, "extender-namespace", o.namespaces)
	o.command.ValidArgsFunction = o.pods(1)
	return o.runs(func(ctx context.Context) (int, error) {
		release, err := o.check()
		if err != nil {
			return 0, err
		}
		if o.NArg() != 1 {
			return 0, errors.New("name one pod (see why --help)")
		}
		from, err := o.source(ctx, "-f FILE")
		if err != nil {
			return 0, err
		}
		w, err := situationOf(ctx, from, o.Arg(0), *system)
		if err != nil {
			return 0, err
		}
		// A problem of another pod or a node is in the answer where it matters.
		on := fit.New(w.nodes, w.pods, w.quotas, podrequest.Defaults{Release: release}, func(string, error) {})
		result := why.Explain(why.Question{
			Pod: w.pod, Cluster: on, Release: release, Details: *details, Now: o.now(),
			Inside: w.inside, Books: w.books,
		})
		if w.unknown != nil && result.State == why.Waiting {
			result.Notes = append(result.Notes, "how many pods wait at GPU gates is not known: "+w.unknown.Error())
		}
		return o.write(result, result.Waits())
	})
}

// situation is a pod and, when it waits, the cluster that it waits for.
type situation struct {
	pod     *corev1.Pod
	nodes   []*corev1.Node
	pods    []*corev1.Pod
	quotas  []*corev1.ResourceQuota
	inside  []why.Inside
	books   *ui.Ledger // the leading extender's, nil when they are not known
	unknown error      // why they are not
}

// situationOf reads a pod and, when it waits, all that it could be placed on; the extender knows the gates.
func situationOf(ctx context.Context, from source, name, system string) (*situation, error) {
	pod, err := from.pod(ctx, name)
	if err != nil {
		return nil, err
	}
	w := &situation{pod: pod}
	if pod.Spec.NodeName != "" || kube.IsTerminal(pod) || !kube.Asks(&pod.Spec) {
		return w, nil
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if c, ok := from.(*cluster); ok {
			w.books, w.unknown = c.leading(ctx, system)
		}
	}()
	err = from.each(ctx, onNodes(), pod.Namespace, w)
	<-answered
	return w, err
}

func (w *situation) AddNode(node *corev1.Node) {
	node.ManagedFields, node.Status.Images = nil, nil // most of a node, and not needed
	w.nodes = append(w.nodes, node)
}

// AddPod adds a pod that has devices on a node or is nominated to one.
func (w *situation) AddPod(pod *corev1.Pod) {
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
	// There may be many: only what concerns devices is kept.
	if reduced, err := kube.Transform(pod); err == nil {
		pod, _ = reduced.(*corev1.Pod) // it is tracked
	}
	w.pods = append(w.pods, pod)
}

func (w *situation) AddQuota(quota *corev1.ResourceQuota) { w.quotas = append(w.quotas, quota) }

// leadingTimeout is how long the extender may take: without its answer the report only lacks the gates.
const leadingTimeout = 5 * time.Second

// leading returns the books of the leading extender.
func (c *cluster) leading(ctx context.Context, namespace string) (*ui.Ledger, error) {
	ctx, cancel := context.WithTimeout(ctx, leadingTimeout)
	defer cancel()
	extenders, _, err := c.extenders(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return extenders[0].read(ctx)
}
