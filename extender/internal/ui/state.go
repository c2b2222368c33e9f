package ui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
)

// Query chooses what of the books a State has.
type Query struct {
	View string   // "nodes", "pods", "namespaces" or "gates"
	Show string   // "" is everything, "attention" what is not as it should be, "inits" what will be released
	Find []string // in lower case; each must be in a name or a device's UUID
	Page int      // from 0; one that is too large is the last
}

// perPage is how many rows of a list a State has at most.
var perPage = map[string]int{"nodes": 20, "pods": 50, "namespaces": 50, "gates": 50}

// Facts are what the page shows beside the books, all of it short. Nothing in it changes by itself.
type Facts struct {
	Release string `json:"release"`           // the policy of pods that name none
	Unready string `json:"unready,omitempty"` // why the books are not to be trusted yet
	Standby string `json:"standby,omitempty"` // why this extender binds nothing
	Refused int    `json:"refused"`           // refused pods that will be woken when there is room
	Gates   []Shut `json:"-"`                 // sorted by node
}

// Shut is a node's gate with a pod inside or waiting.
type Shut struct {
	Node    string   `json:"node"`
	Inside  []string `json:"inside,omitempty"` // namespace/name, sorted
	Waiting int      `json:"waiting"`
	Since   int64    `json:"since"` // Unix seconds: when the first of those inside came in; 0 when nobody is
}

// State is the data of the page: totals of all the books, and one page of one list. Empty lists are left out.
type State struct {
	Generation uint64 `json:"generation"`
	Facts
	Totals     []Total          `json:"totals,omitempty"` // sorted by family
	Counts     map[string]Count `json:"counts"`           // by view
	View       string           `json:"view"`
	Page       int              `json:"page"`
	Pages      int              `json:"pages"` // at least 1
	Nodes      []NodeRow        `json:"nodes,omitempty"`
	Pods       []PodRow         `json:"pods,omitempty"`
	Namespaces []NamespaceRow   `json:"namespaces,omitempty"`
	Gates      []Shut           `json:"gates,omitempty"`
}

// Count is how many there are and how many of them the query shows.
type Count struct {
	All   int `json:"all"`
	Shown int `json:"shown"`
}

// Total is the memory of a family's devices in the cluster. Steady + Held + Free + Out is capacity + Over,
// because a device that is over capacity does not take from others.
type Total struct {
	Family      string `json:"family"`
	Devices     int    `json:"devices"`
	CapacityMiB int64  `json:"capacityMiB"`
	SteadyMiB   int64  `json:"steadyMiB"` // what pods keep to their end
	HeldMiB     int64  `json:"heldMiB"`   // what is reserved besides, until init containers end
	FreeMiB     int64  `json:"freeMiB"`   // of devices that take pods
	OutMiB      int64  `json:"outMiB"`    // free, of devices that take none
	OverMiB     int64  `json:"overMiB"`   // reserved beyond devices' capacity
}

// state builds what a query shows. The caller has read generation first.
func state(generation uint64, facts Facts, book *ledger.Book, q Query) State {
	s := State{Generation: generation, Facts: facts, View: q.View, Counts: map[string]Count{}}
	var nodes []nodeSum
	var pods []*ledger.Entry
	var nodeCount, podCount Count
	totals := map[string]*Total{}
	held := map[string]map[string]ledger.Charge{} // by namespace and family: what its pods will give back
	for _, v := range book.Nodes() {
		n := sum(v, totals, held)
		nodeCount.All++
		if q.node(&n) {
			nodeCount.Shown++
			nodes = append(nodes, n)
		}
		for _, e := range v.Pods {
			if !holds(e) {
				continue
			}
			podCount.All++
			if q.pod(&n, e) {
				podCount.Shown++
				if q.View == "pods" {
					pods = append(pods, e)
				}
			}
		}
	}
	for _, t := range totals {
		s.Totals = append(s.Totals, *t)
	}
	slices.SortFunc(s.Totals, func(a, b Total) int { return cmp.Compare(a.Family, b.Family) })
	spaces := book.Namespaces()
	namespaces := slices.DeleteFunc(slices.Clone(spaces),
		func(n *ledger.Namespace) bool { return !q.namespace(n, held[n.Name]) })
	gates := slices.DeleteFunc(slices.Clone(facts.Gates), func(g Shut) bool { return !q.gate(g) })
	s.Counts["nodes"], s.Counts["pods"] = nodeCount, podCount
	s.Counts["namespaces"] = Count{len(spaces), len(namespaces)}
	s.Counts["gates"] = Count{len(facts.Gates), len(gates)}

	size := perPage[q.View]
	s.Pages = max(1, (s.Counts[q.View].Shown+size-1)/size)
	s.Page = min(max(0, q.Page), s.Pages-1)
	switch q.View {
	case "nodes":
		for _, n := range part(nodes, s.Page, size) {
			s.Nodes = append(s.Nodes, n.row())
		}
	case "pods":
		slices.SortFunc(pods, comparePods)
		for _, e := range part(pods, s.Page, size) {
			s.Pods = append(s.Pods, podRow(e))
		}
	case "namespaces":
		for _, n := range part(namespaces, s.Page, size) {
			s.Namespaces = append(s.Namespaces, namespaceRow(n, held[n.Name]))
		}
	case "gates":
		s.Gates = part(gates, s.Page, size)
	}
	return s
}

func part[T any](rows []T, page, size int) []T {
	return rows[page*size : min(len(rows), page*size+size)]
}

// holds reports whether a pod is shown: it is charged something, or may hold something.
func holds(e *ledger.Entry) bool { return len(e.Reserved.Devices) > 0 || e.Problem != "" }

func comparePods(a, b *ledger.Entry) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// initsAhead reports whether a pod is charged for init containers that have yet to end.
func initsAhead(e *ledger.Entry) bool { return e.First < e.Classes.Steady() }

// steady is what a pod keeps to its end.
func steady(e *ledger.Entry) phase.Reservation {
	if !initsAhead(e) {
		return e.Reserved
	}
	r, err := e.Classes.Reserved(e.Allocation, e.Classes.Steady())
	if err != nil {
		return e.Reserved // the entry's Problem says so
	}
	return r
}

// shut turns the gates' states into what the page shows of them.
func shut(states []gate.State) []Shut {
	var out []Shut
	for _, s := range states {
		g := Shut{Node: s.Node, Waiting: s.Waiting}
		for _, p := range s.Inside {
			g.Inside = append(g.Inside, p.Name)
		}
		if !s.Since.IsZero() {
			g.Since = s.Since.Unix()
		}
		slices.Sort(g.Inside)
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b Shut) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// node reports whether a node is shown: by its own name, or for a device or a pod there.
func (q Query) node(n *nodeSum) bool {
	switch {
	case q.Show == "attention" && !n.attention(), q.Show == "inits" && !n.inits:
		return false
	case len(q.Find) == 0:
		return true
	}
	return q.finds(func(word string) bool {
		return contains(n.Name, word) ||
			slices.ContainsFunc(n.Devices, func(d device.Device) bool { return contains(d.UUID, word) }) ||
			slices.ContainsFunc(n.Pods, func(e *ledger.Entry) bool { return holds(e) && podContains(e, word) })
	})
}

// pod reports whether a pod is shown: by its namespace/name or UID, its node or a device that it holds.
func (q Query) pod(n *nodeSum, e *ledger.Entry) bool {
	switch {
	case q.Show == "attention" && e.Problem == "" && !n.strained(e), q.Show == "inits" && !initsAhead(e):
		return false
	case len(q.Find) == 0:
		return true
	}
	return q.finds(func(word string) bool {
		return podContains(e, word) || contains(n.Name, word) || contains(e.UID, word) ||
			slices.ContainsFunc(e.Reserved.Devices, func(h phase.Holding) bool { return contains(h.UUID, word) })
	})
}

func (q Query) namespace(n *ledger.Namespace, held map[string]ledger.Charge) bool {
	if q.Show == "attention" && len(n.Unreadable) == 0 && !slices.ContainsFunc(n.Usage(), func(u ledger.QuotaUse) bool {
		return u.Used > u.Limit.Max || u.Limit.Unreadable != ""
	}) || q.Show == "inits" && len(held) == 0 {
		return false
	}
	return q.finds(func(word string) bool { return contains(n.Name, word) })
}

func (q Query) gate(g Shut) bool {
	return q.finds(func(word string) bool {
		return contains(g.Node, word) ||
			slices.ContainsFunc(g.Inside, func(name string) bool { return contains(name, word) })
	})
}

func (q Query) finds(has func(word string) bool) bool {
	for _, word := range q.Find {
		if !has(word) {
			return false
		}
	}
	return true
}

func podContains(e *ledger.Entry, word string) bool {
	if namespace, name, both := strings.Cut(word, "/"); both {
		return strings.HasSuffix(e.Namespace, namespace) && strings.HasPrefix(e.Name, name)
	}
	return contains(e.Name, word) || contains(e.Namespace, word)
}

func contains(text, word string) bool { return strings.Contains(strings.ToLower(text), word) }
