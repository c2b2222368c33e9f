package why

import (
	"fmt"
	"slices"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/fit"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Shortage is a line of a ResourceQuota that has no room for the pod, in MiB × devices or percent × devices.
type Shortage struct {
	Quota    string `json:"quota"`
	Resource string `json:"resource"` // its key
	Family   string `json:"family"`
	Unit     string `json:"unit"` // MiB or %
	Asked    int64  `json:"asked"`
	// AtLeast means that the pod may be charged more where it fits, which only a device can settle.
	AtLeast bool  `json:"atLeast,omitempty"`
	Used    int64 `json:"used"`
	Max     int64 `json:"max"`
	Missing int64 `json:"missing"`
	// RaiseBy and RaiseTo are what the key would have to grow by and to, in its own unit.
	RaiseBy int64 `json:"raiseBy"`
	RaiseTo int64 `json:"raiseTo"`
	// Unreadable is why the line itself or a pod that counts against it cannot be read; until then nothing is added
	// to the namespace.
	Unreadable string          `json:"unreadable,omitempty"`
	Holders    []report.Holder `json:"holders"`

	dimension ledger.Dimension
	quota     *ledger.Quota
}

// shortages returns the lines that have no room for charges (by family) of the pod.
func (q *query) shortages(charges map[string]ledger.Charge) []Shortage {
	n := q.Cluster.Namespace(q.Pod.Namespace)
	if n == nil {
		return nil
	}
	scope := kube.Scope(q.Pod)
	uses := n.Usage()
	var short []Shortage
	for i := range n.Quotas {
		quota := &n.Quotas[i]
		lines := uses[:len(quota.Limits)]
		uses = uses[len(quota.Limits):]
		if !quota.Counts(scope) {
			continue
		}
		for _, use := range lines {
			if s, ok := q.shortage(n, quota, use, charges); ok {
				short = append(short, s)
			}
		}
	}
	return short
}

// shortage holds the pod's charges against one line.
func (q *query) shortage(
	n *ledger.Namespace, quota *ledger.Quota, use ledger.QuotaUse, charges map[string]ledger.Charge,
) (Shortage, bool) {
	l := use.Limit
	s := Shortage{
		Quota: quota.Name, Resource: l.Resource, Family: l.Family, Unit: "MiB", Used: use.Used, Max: l.Max,
		Unreadable: l.Unreadable, Holders: []report.Holder{}, dimension: l.Dimension, quota: quota,
	}
	block := classify.Family(l.Family).MemoryBlockMiB
	s.Asked = charges[l.Family].MemoryMiB
	if l.Dimension == ledger.Cores {
		s.Unit, s.Asked, block = "%", charges[l.Family].Cores, 1
	}
	if s.Asked == 0 {
		return s, false // a quota holds only what a pod asks for
	}
	s.Missing = max(0, s.Used+s.Asked-s.Max)
	s.RaiseBy = (s.Missing + block - 1) / block
	s.RaiseTo = s.Max/block + s.RaiseBy
	at := slices.IndexFunc(n.Unreadable, func(e *ledger.Entry) bool { return quota.Counts(e.Scope) })
	if at >= 0 && s.Unreadable == "" {
		s.Unreadable = fmt.Sprintf("%v: %s", &n.Unreadable[at].Pod, n.Unreadable[at].Problem)
	}
	return s, s.Missing > 0 || s.Unreadable != ""
}

// holdQuotas adds who holds what is used of quotas.
func (q *query) holdQuotas(short []Shortage) {
	if len(short) == 0 {
		return
	}
	all := q.Cluster.Entries()
	for i := range short {
		s := &short[i]
		var counted []*ledger.Entry
		for _, e := range all {
			if e.Namespace == s.quota.Namespace && s.quota.Counts(e.Scope) {
				counted = append(counted, e)
			}
		}
		s.Holders = q.holders(counted, ofFamily(s.Family))
	}
}

// overQuota is the reason of a node on whose devices, of all that fit, the pod would exceed a quota.
const overQuota = "Exceeded quota with the devices of this node"

// chargedOn holds the quotas against a pod whose charge only a device can settle. Nodes on which it would exceed one
// refuse it; when they are all of those that fit, the quotas are short by what it takes where that is least.
func (q *query) chargedOn(r *Report, fits []string, refusals []fit.Refusal) ([]string, []fit.Refusal) {
	var open []string
	var over []fit.Refusal
	var best []Shortage
	for _, node := range fits {
		charges, err := q.Cluster.Charges(node, q.request)
		if err != nil {
			continue // it fits
		}
		short := q.shortages(charges)
		if len(short) == 0 {
			open = append(open, node)
			continue
		}
		if best == nil || sum(short) < sum(best) {
			best = short
		}
		s := &short[0]
		over = append(over, fit.Refusal{Node: node, Reason: overQuota, Sentence: fmt.Sprintf(
			"%s: asked %d + %d used > %d %s (ResourceQuota %s, %s)",
			overQuota, s.Asked, s.Used, s.Max, s.Unit, s.Quota, s.Resource)})
	}
	if len(open) == 0 {
		r.Quotas = append(r.Quotas, best...)
		return fits, refusals
	}
	return open, append(refusals, over...)
}

// sum is how much is missing in all.
func sum(short []Shortage) (missing int64) {
	for i := range short {
		missing += short[i].Missing
	}
	return missing
}
