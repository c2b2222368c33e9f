package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Gate is a node's gate with a pod inside or waiting.
type Gate struct {
	Node    string   `json:"node"`
	Inside  []string `json:"inside"`  // namespace/name: bound, and kubelet has not reported on them
	Waiting int      `json:"waiting"` // pods whose Binding waits for its turn; only the extender knows
	// ShutSeconds is for how long the first of those inside has been there, 0 when that is not known.
	ShutSeconds float64 `json:"shutSeconds"`
}

// Inside is a pod that is inside its node's gate.
type Inside struct {
	Node, Name string    // namespace/name
	Bound      time.Time // zero when its status does not say
}

// InsideGate returns the pod as one inside its node's gate; false when it is not.
func InsideGate(pod *corev1.Pod) (Inside, bool) {
	if !kube.InGate(pod) {
		return Inside{}, false
	}
	return Inside{pod.Spec.NodeName, pod.Namespace + "/" + pod.Name, report.BoundAt(pod)}, true
}

// gates takes out of the nodes that fit those whose gate refuses, and reports the gates of the others.
func (q *query) gates(r *Report, fits []string, refusals []fit.Refusal) ([]string, []fit.Refusal) {
	gates := map[string]*Gate{}
	for _, p := range q.Inside {
		g := gates[p.Node]
		if g == nil {
			g = &Gate{Node: p.Node}
			gates[p.Node] = g
		}
		g.Inside = append(g.Inside, p.Name)
		if !p.Bound.IsZero() {
			g.ShutSeconds = max(g.ShutSeconds, q.Now.Sub(p.Bound).Seconds())
		}
	}
	if q.Books != nil {
		clear(gates) // the extender knows them all
		for _, g := range q.Books.Gates {
			gates[g.Node] = &Gate{g.Node, append([]string{}, g.Inside...), g.Waiting, g.ShutSeconds}
		}
	}
	open := []string{}
	for _, node := range fits {
		g := gates[node]
		if g == nil {
			open = append(open, node)
			continue
		}
		slices.Sort(g.Inside)
		shut := time.Duration(g.ShutSeconds * float64(time.Second))
		if reason := gate.Refusal(shut, g.Waiting); reason != "" {
			refusals = append(refusals, fit.Refusal{Node: node, Reason: reason, Sentence: g.sentence(reason)})
			continue
		}
		r.Gates = append(r.Gates, *g)
		open = append(open, node)
	}
	return open, refusals
}

func (g *Gate) sentence(reason string) string {
	text := fmt.Sprintf("%s (inside: %s for %.0f s", reason, strings.Join(g.Inside, ", "), g.ShutSeconds)
	if g.Waiting > 0 {
		text += fmt.Sprintf("; %d waiting", g.Waiting)
	}
	return text + ")"
}

// assumed returns the nodes on which the extender has booked a pod whose Binding the watch has not shown yet.
func assumed(books *ui.Ledger, uid string) []string {
	var nodes []string
	if books == nil {
		return nil
	}
	for _, n := range books.Nodes {
		for _, p := range n.Pods {
			if p.UID == uid && p.Assumed {
				nodes = append(nodes, n.Name)
			}
		}
	}
	return nodes
}
