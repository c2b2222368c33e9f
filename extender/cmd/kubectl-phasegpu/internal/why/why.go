// Package why explains why a pod waits for devices: by node, device and phase, who holds what is missing and until
// which init container ends, and what would make the pod fit. The answers follow from the API server's objects, by
// the extender's own rules.
package why

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/explain"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
	"github.com/phasegpu/phasegpu/gen/admission"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// State is what there is to explain.
type State string

// The states.
const (
	Waiting   State = "waiting"   // for a node
	Placed    State = "placed"    // on a node
	Ended     State = "ended"     // Succeeded or Failed
	NoDevices State = "noDevices" // it asks for none, so phasegpu has no say
)

// Report is the JSON document. Lists are empty unless the pod waits, but for hindrances and notes.
type Report struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	Node      string `json:"node"` // "" while it has none
	// Pod is what it asks for and holds, null when that cannot be read.
	Pod *explain.Explanation `json:"pod"`
	// Hindrances are about the pod itself: each has to be removed, whatever room there is.
	Hindrances []Hindrance `json:"hindrances"`
	// Quotas are the limits of its namespace that it exceeds: each has to be met.
	Quotas []Shortage `json:"quotas"`
	// Fits lists the nodes on which it fits now, best first; quotas and hindrances are apart.
	Fits []string `json:"fits"`
	// Refusals are the other nodes, by reason: those that need nothing but time first.
	Refusals []Group `json:"refusals"`
	// Gates are those of the nodes on which it fits with a pod inside or waiting.
	Gates []Gate `json:"gates"`
	// Remedies are what would make it fit: one of those that are about nodes, and all that are about the rest.
	Remedies []Remedy `json:"remedies"`
	Notes    []string `json:"notes"`
	// GatesFrom is the source of the gates: "extender", or "API server", which knows who is inside and not who waits.
	GatesFrom string `json:"gatesFrom"`

	text detail
}

type detail struct {
	pod   *corev1.Pod
	since time.Duration // it was created
}

// Hindrance is a fact about the pod that keeps it from being placed or, once it is, accounted for.
type Hindrance struct {
	Kind    string `json:"kind"` // scheduler, gate, deleting, request, policy, record, kubelet
	Message string `json:"message"`
}

// Question is a pod and what it is asked of.
type Question struct {
	Pod     *corev1.Pod
	Cluster *fit.Cluster
	Release phase.Release // of pods that name none
	Details int           // how many nodes of a reason are described device by device, those nearest to fitting first
	Inside  []Inside      // the pods that kubelets have not reported on
	Books   *ui.Ledger    // the leading extender's, nil when they are not known
	Now     time.Time
}

// query is a question about a waiting pod with devices whose request can be read.
type query struct {
	Question
	request *podrequest.Request
	refused map[string]*fit.Refusal // by node
}

// Explain answers a question.
func Explain(q Question) *Report {
	pod := q.Pod
	r := &Report{
		Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, State: Waiting,
		Hindrances: []Hindrance{}, Quotas: []Shortage{}, Fits: []string{}, Refusals: []Group{}, Gates: []Gate{},
		Remedies: []Remedy{}, Notes: []string{},
		GatesFrom: "API server", text: detail{pod: pod, since: q.Now.Sub(pod.CreationTimestamp.Time)},
	}
	if q.Books != nil {
		r.GatesFrom = "extender"
	}
	r.Pod, _ = explain.Pod(pod, q.Release) // a hindrance says what is wrong with it
	switch {
	case !kube.Asks(&pod.Spec):
		r.State = NoDevices
		r.note("it asks for no device, so phasegpu has no say in where it goes: see kubectl describe pod")
	case kube.IsTerminal(pod):
		r.State = Ended
		r.ended()
	case pod.Spec.NodeName != "":
		r.State = Placed
		r.placed(&q)
	default:
		r.waiting(&q)
	}
	for _, warning := range kube.Misspelt(pod) {
		r.note("%s", warning)
	}
	return r
}

func (r *Report) hinder(kind, format string, args ...any) {
	r.Hindrances = append(r.Hindrances, Hindrance{kind, fmt.Sprintf(format, args...)})
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// ended says how.
func (r *Report) ended() {
	s := &r.text.pod.Status
	if s.Reason != "" || s.Message != "" {
		r.hinder("kubelet", "%s: %s", s.Reason, s.Message)
	}
	r.note("it has ended (%s) and holds nothing any more", s.Phase)
}

// placed says what is wrong with a pod that has a node.
func (r *Report) placed(q *Question) {
	truth := kube.LedgerPod(q.Pod, q.Release)
	if err := kube.PodProblem(q.Pod, &truth, q.Release); err != nil {
		r.hinder("record", "%s", err.Error())
	}
	if kube.InGate(q.Pod) {
		since := ""
		if at := report.BoundAt(q.Pod); !at.IsZero() {
			since = fmt.Sprintf(" for %s", age(q.Now.Sub(at)))
		}
		r.note("kubelet has not reported on it%s: it is in the GPU gate of node %s, where other pods wait until "+
			"kubelet does",
			since, r.Node)
	}
}

// waiting says why a pod waits.
func (r *Report) waiting(question *Question) {
	pod := question.Pod
	r.ours(pod)
	for _, gate := range pod.Spec.SchedulingGates {
		r.hinder("gate", "spec.schedulingGates has %s: no scheduler looks at it until that is removed", gate.Name)
	}
	if pod.DeletionTimestamp != nil {
		r.hinder("deleting", "it is being deleted: it will not be placed any more")
	}
	if _, err := kube.Release(pod, question.Release); err != nil {
		r.hinder("policy", "%s: it would hold its peak to its end", err.Error())
	}
	q := &query{Question: *question}
	var err error
	if q.request, err = q.Cluster.Parse(pod); err != nil {
		r.hinder("request", "what it asks for cannot be read, so it is placed nowhere: %s", err.Error())
		return
	}
	fits, refusals := q.Cluster.Ask(pod, q.request)
	if q.request.ChargesKnown || len(fits) == 0 {
		r.Quotas = append(r.Quotas, q.shortages(q.request.Charges)...)
		for i := range r.Quotas {
			r.Quotas[i].AtLeast = !q.request.ChargesKnown
		}
	} else {
		fits, refusals = q.chargedOn(r, fits, refusals)
	}
	q.holdQuotas(r.Quotas)
	r.Fits, refusals = q.gates(r, fits, refusals)
	q.refused = map[string]*fit.Refusal{}
	for i := range refusals {
		q.refused[refusals[i].Node] = &refusals[i]
	}
	r.Refusals = append(r.Refusals, q.groups(refusals)...)
	r.Remedies = append(r.Remedies, q.remedies(r)...)
	r.sum(q)
}

// ours says whether the pod is phasegpu's to place.
func (r *Report) ours(pod *corev1.Pod) {
	switch scheduler := pod.Spec.SchedulerName; {
	case scheduler == admission.SchedulerName:
	case admission.IsDefaultScheduler(scheduler):
		r.hinder("scheduler", "spec.schedulerName is %s and not %s: phasegpu's webhook has not admitted it "+
			"(it is older than the webhook, or that was not asked). Create it anew; "+
			"without a record of its devices its node serves none", corev1.DefaultSchedulerName, admission.SchedulerName)
	default:
		r.hinder("scheduler", "spec.schedulerName is %s: phasegpu places only pods of %s, and of a scheduler that uses its "+
			"extender and that the webhook knows (--allow-scheduler). Leave the name out and create it anew",
			scheduler, admission.SchedulerName)
	}
}

// sum adds what is left to say.
func (r *Report) sum(q *query) {
	for _, n := range assumed(q.Books, string(q.Pod.UID)) {
		r.note("the extender has booked it on node %s and its Binding is on its way", n)
	}
	if node := q.Pod.Status.NominatedNodeName; node != "" {
		r.note("kube-scheduler has evicted others for it on node %s (status.nominatedNodeName), "+
			"where its room is kept from pods of the same priority or a lower one", node)
	}
	if said := unscheduled(q.Pod); said != "" {
		r.note("kube-scheduler said last: %s", said)
	}
	held := slices.ContainsFunc(r.Refusals, func(g Group) bool { return g.Passing })
	switch {
	case len(q.Cluster.NodeList()) == 0:
		r.note("there is no node")
	case len(r.Fits) > 0 && len(r.Quotas)+len(r.Hindrances) == 0:
		r.note("nothing that phasegpu decides is in its way. CPU, memory, volumes, spread and ports are " +
			"kube-scheduler's: see what it says with kubectl describe pod")
	case held && len(r.Fits) == 0 && q.Pod.Status.NominatedNodeName == "":
		text := "kube-scheduler evicts nobody for memory or cores of a device: whatever its priority, the pod waits " +
			"until others end or release"
		if lower := q.lower(); lower > 0 {
			text += fmt.Sprintf(", although on these nodes %s of lower priority hold devices",
				render.Count(int64(lower), "pod"))
		}
		r.note("%s", text)
	}
}

// lower counts the pods of lower priority that hold something of the nodes that refuse for what others hold.
func (q *query) lower() int {
	count := 0
	for node, r := range q.refused {
		if !passes(r) {
			continue
		}
		for _, e := range q.Cluster.View(node).Pods {
			other := q.Cluster.Pod(e)
			if other != nil && len(e.Reserved.Devices) > 0 && podrequest.Priority(other) < podrequest.Priority(q.Pod) {
				count++
			}
		}
	}
	return count
}

// unscheduled returns what kube-scheduler wrote last about a pod that it could not place.
func unscheduled(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return c.Message
		}
	}
	return ""
}

// Waits reports whether the pod waits and something is in its way.
func (r *Report) Waits() bool {
	return r.State == Waiting && (len(r.Fits) == 0 || len(r.Quotas)+len(r.Hindrances) > 0)
}
