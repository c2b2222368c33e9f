package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// tape is a source of decisions: random bytes in a property test, the fuzzer's in a fuzz test.
type tape struct{ bytes []byte }

// below returns a number from 0 to n-1, 0 when the tape is at its end.
func (t *tape) below(n int) int {
	if len(t.bytes) == 0 {
		return 0
	}
	b := int(t.bytes[0])
	t.bytes = t.bytes[1:]
	return b % n
}

var (
	scopes   = []Scope{{}, {PriorityClass: "high"}, {BestEffort: true}}
	families = []string{"NVIDIA", "DCU"}
)

const (
	simulatedNodes = 3
	simulatedPods  = 12
)

// simulation is an API server with a watch and a ledger that follows it. Versions grow with every write;
// each pod's events come in order, as an informer delivers them, but late, repeated, and mixed with
// lists.
type simulation struct {
	tape
	book *Book
	twin *twin

	version   uint64
	created   int
	pods      map[string]Pod // the truth, bound or not
	proposals map[string]Pod // assumptions whose Binding is under way
	queue     []Pod          // events under way; Deleted has Version 0
	past      []Pod          // events delivered, for repetition
	unknown   uint64         // releases of pods that the book does not hold
}

func newSimulation(bytes []byte) *simulation {
	return &simulation{
		tape: tape{bytes}, book: New(), twin: newTwin(),
		pods: map[string]Pod{}, proposals: map[string]Pod{},
	}
}

func (sim *simulation) nodeName() string { return fmt.Sprint("n", sim.below(simulatedNodes)) }

// anyOf returns one of a map's pods.
func (sim *simulation) anyOf(pods map[string]Pod) (Pod, bool) {
	if len(pods) == 0 {
		return Pod{}, false
	}
	uids := slices.Sorted(maps.Keys(pods))
	return pods[uids[sim.below(len(uids))]], true
}

// write makes a pod the truth and sends it on its way to the ledger, if the watch selects it.
func (sim *simulation) write(p Pod) {
	sim.version++
	p.Version = sim.version
	sim.pods[p.UID] = p
	if p.Node != "" {
		sim.queue = append(sim.queue, p)
	}
}

// allocation decides on devices for every container, among four of which a node may list any.
func (sim *simulation) allocation(node string, classes phase.Pod) device.Allocation {
	a := make(device.Allocation, len(classes))
	for i := range a {
		for range sim.below(3) {
			k := sim.below(4)
			a[i] = append(a[i], device.Share{
				UUID: fmt.Sprint(node, "-G", k), Family: families[k/3],
				Amount: device.Amount{Slots: 1, MemoryMiB: int64(sim.below(8)),
					Cores: []int64{0, 30, 100}[sim.below(3)]},
			})
		}
	}
	return a
}

// step lets one thing happen and returns its name; the error says what the book did wrong.
func (sim *simulation) step() (name string, err error) {
	switch sim.below(18) {
	case 0, 1:
		return "create", sim.create()
	case 2, 3:
		return "assume", sim.assume()
	case 4:
		return "bind", sim.bind()
	case 5:
		return "unassume", sim.unassume()
	case 6, 7:
		return "phase", sim.change(func(p *Pod) { p.First = sim.first(p.Classes) })
	case 8:
		return "rewrite", sim.change(func(p *Pod) {
			switch sim.below(4) {
			case 0: // refit
				p.Allocation, p.Unreadable = sim.allocation(p.Node, p.Classes), ""
			case 1:
				p.Allocation, p.Unreadable = nil, "garbage"
			case 2:
				p.Scope = scopes[sim.below(len(scopes))]
			default: // a label
			}
		})
	case 9:
		return "delete", sim.remove()
	case 10, 11, 12:
		return "deliver", sim.deliver(1 + sim.below(4))
	case 13:
		return "repeat", sim.repeat()
	case 14:
		return "relist", sim.relist()
	case 15:
		return "node", sim.node()
	case 16:
		return "quota", sim.quota()
	default:
		return "remove an unknown pod", sim.removeUnknown()
	}
}

func (sim *simulation) first(c phase.Pod) int {
	k := sim.below(c.Len() + 1)
	if k == c.Len() {
		return phase.None
	}
	return k
}

func (sim *simulation) create() error {
	if len(sim.pods) >= simulatedPods {
		return nil
	}
	sim.created++
	p := Pod{
		UID: fmt.Sprint("uid-", sim.created), Name: fmt.Sprint("pod-", sim.created), Namespace: fmt.Sprint("ns",
			sim.below(2)),
		Scope: scopes[sim.below(len(scopes))],
	}
	for range 1 + sim.below(4) {
		p.Classes = append(p.Classes, phase.Class(sim.below(3)))
	}
	sim.write(p)
	return nil
}

// assume lets the scheduler decide on a pod that may be bound already, or assumed elsewhere.
func (sim *simulation) assume() error {
	p, ok := sim.anyOf(sim.pods)
	if !ok {
		return nil
	}
	p.Node, p.First, p.Unreadable = sim.nodeName(), 0, ""
	p.Allocation = sim.allocation(p.Node, p.Classes)
	want := sim.twin.refuses(p)
	got, d, err := sim.book.Assume(p, func(v *View) (device.Allocation, error) {
		for i, dev := range v.Devices {
			mine := largest(p, func(s device.Share) bool { return s.UUID == dev.UUID })
			if mine.MemoryMiB > 0 && v.Held[i].MemoryMiB+mine.MemoryMiB > dev.Capacity.MemoryMiB {
				return nil, errNoRoom
			}
		}
		return p.Allocation, nil
	})
	var quota *QuotaError
	is := map[string]bool{
		"": err == nil, "bound": errors.Is(err, ErrBound), "node": errors.Is(err, ErrNode),
		"room": errors.Is(err, errNoRoom), "quota": errors.As(err, &quota),
	}
	if !is[want] {
		return fmt.Errorf("Assume of %s on %s: error %v, the twin says %q", p.UID, p.Node, err, want)
	}
	if err != nil {
		return nil
	}
	if !got.Equal(p.Allocation) {
		return fmt.Errorf("Assume returned %v, placed was %v", got, p.Allocation)
	}
	sim.proposals[p.UID] = p
	return sim.applied(d, func() { p.Version = 0; sim.twin.pods[p.UID] = fact{Pod: p, assumed: true} })
}

// bind lets a Binding succeed: the truth has the decision now, and the watch will tell.
func (sim *simulation) bind() error {
	p, ok := sim.anyOf(sim.proposals)
	if !ok {
		return nil
	}
	delete(sim.proposals, p.UID)
	if now, ok := sim.pods[p.UID]; ok && now.Node == "" {
		sim.write(p)
		return nil
	}
	return sim.applied(sim.book.Unassume(p.UID), func() { sim.unassumed(p.UID) }) // gone, or bound by another
}

func (sim *simulation) unassume() error {
	p, ok := sim.anyOf(sim.pods)
	if !ok {
		return nil
	}
	if _, proposed := sim.proposals[p.UID]; !proposed && p.Node != "" && sim.twin.pods[p.UID].assumed {
		return nil // it was bound: it is not unassumed
	}
	delete(sim.proposals, p.UID)
	return sim.applied(sim.book.Unassume(p.UID), func() { sim.unassumed(p.UID) })
}

func (sim *simulation) unassumed(uid string) {
	if sim.twin.pods[uid].assumed {
		delete(sim.twin.pods, uid)
	}
}

// change writes a pod; what happens to a pod without a node is told too, by another watch.
func (sim *simulation) change(f func(*Pod)) error {
	p, ok := sim.anyOf(sim.pods)
	if !ok {
		return nil
	}
	f(&p)
	if p.Node == "" {
		p.Allocation, p.Unreadable = nil, ""
		sim.write(p)
		if p.First == phase.None {
			delete(sim.proposals, p.UID)
			delete(sim.pods, p.UID)
		}
		return sim.observe(p)
	}
	sim.write(p)
	return nil
}

func (sim *simulation) remove() error {
	p, ok := sim.anyOf(sim.pods)
	if !ok {
		return nil
	}
	delete(sim.pods, p.UID)
	if p.Node != "" {
		p.Version = 0
		sim.queue = append(sim.queue, p)
	}
	return nil
}

func (sim *simulation) deliver(n int) error {
	for ; n > 0 && len(sim.queue) > 0; n-- {
		p := sim.queue[0]
		sim.queue = sim.queue[1:]
		if p.Version != 0 {
			sim.past = append(sim.past, p)
			if err := sim.observe(p); err != nil {
				return err
			}
			continue
		}
		if err := sim.removed(p.UID); err != nil {
			return err
		}
	}
	return nil
}

func (sim *simulation) observe(p Pod) error {
	return sim.applied(sim.book.Observe(p), func() { sim.twin.observe(p) })
}

func (sim *simulation) removed(uid string) error {
	_, held := sim.twin.pods[uid]
	sim.past = slices.DeleteFunc(sim.past, func(p Pod) bool { return p.UID == uid })
	d, err := sim.book.Remove(uid)
	if (err == nil) != held {
		return fmt.Errorf("Remove of %s: error %v, the twin holds it: %t", uid, err, held)
	}
	if err != nil {
		sim.unknown++
	}
	return sim.applied(d, func() { delete(sim.twin.pods, uid) })
}

func (sim *simulation) removeUnknown() error { return sim.removed("nobody") }

// repeat delivers an event again, the last of its pod or an older one.
func (sim *simulation) repeat() error {
	if len(sim.past) == 0 {
		return nil
	}
	return sim.observe(sim.past[sim.below(len(sim.past))])
}

// relist takes a list of the truth, sometimes because the watch has lost its events; otherwise those
// come after the list, late.
func (sim *simulation) relist() error {
	var list []Pod
	for _, uid := range slices.Sorted(maps.Keys(sim.pods)) {
		if p := sim.pods[uid]; p.Node != "" {
			list = append(list, p)
		}
	}
	sim.book.Replace(list, sim.version)
	maps.DeleteFunc(sim.twin.pods, func(_ string, p fact) bool { return !p.assumed })
	for _, p := range list {
		sim.twin.observe(p)
	}
	if sim.below(2) == 0 {
		sim.queue, sim.past = nil, nil
		return nil
	}
	// A pod that is not in the list is gone: the twin never hears of it again.
	gone := func(p Pod) bool { return sim.pods[p.UID].Node == "" }
	for _, p := range slices.Concat(sim.queue, sim.past) {
		if gone(p) && p.Version != 0 {
			if d := sim.book.Observe(p); d.Changed {
				return fmt.Errorf("pod %s, which the list has not, came back: %+v", p.UID, d)
			}
		}
	}
	sim.queue = slices.DeleteFunc(sim.queue, gone)
	sim.past = slices.DeleteFunc(sim.past, gone)
	return nil
}

func (sim *simulation) node() error {
	name := sim.nodeName()
	if sim.below(4) == 0 {
		return sim.applied(sim.book.RemoveNode(name), func() { delete(sim.twin.nodes, name) })
	}
	n := Node{Name: name}
	for k := range 4 {
		if sim.below(4) > 0 {
			n.Devices = append(n.Devices, device.Device{
				UUID: fmt.Sprint(name, "-G", k), Index: k, Family: families[k/3], Healthy: sim.below(4) > 0,
				Capacity: device.Amount{Slots: 10, MemoryMiB: 20 * int64(sim.below(3)), Cores: 100},
			})
		}
	}
	if sim.below(8) == 0 {
		n.Unreadable = "inventory: garbage"
	}
	return sim.applied(sim.book.SetNode(n), func() { sim.twin.nodes[name] = n })
}

func (sim *simulation) quota() error {
	namespace, name := fmt.Sprint("ns", sim.below(2)), fmt.Sprint("q", sim.below(2))
	if sim.below(3) == 0 {
		return sim.applied(sim.book.RemoveQuota(namespace, name),
			func() { delete(sim.twin.quotas, [2]string{namespace, name}) })
	}
	q := Quota{Namespace: namespace, Name: name}
	if sim.below(2) == 0 {
		scope := scopes[sim.below(len(scopes))]
		q.Selects = func(s Scope) bool { return s == scope }
	}
	for range sim.below(3) {
		q.Limits = append(q.Limits, Limit{Family: families[sim.below(2)], Dimension: Dimension(sim.below(2)),
			Max: 25 * int64(sim.below(6))})
	}
	return sim.applied(sim.book.SetQuota(q), func() { sim.twin.quotas[[2]string{namespace, name}] = q })
}

// applied changes the twin as the book was changed, and checks the Delta: a sum
// that fell must be Released, one that rose Raised.
func (sim *simulation) applied(d Delta, change func()) error {
	before := sim.sums(d)
	change()
	after := sim.sums(d)
	fell, rose := false, false
	for i := range before {
		fell = fell || after[i] < before[i]
		rose = rose || after[i] > before[i]
	}
	if fell && !d.Released || rose && !d.Raised || (fell || rose) && !d.Changed {
		return fmt.Errorf("sums %v became %v, but %+v", before, after, d)
	}
	return nil
}

// sums lists what the nodes and the namespace of a delta are charged.
func (sim *simulation) sums(d Delta) []int64 {
	var out []int64
	for _, node := range []string{d.Node, d.Left} {
		for k := range 4 {
			u := sim.twin.held(node, fmt.Sprint(node, "-G", k), "")
			exclusive := int64(0)
			if u.Exclusive {
				exclusive = 1
			}
			out = append(out, u.Slots, u.MemoryMiB, u.Cores, exclusive)
		}
	}
	for _, family := range families {
		u := sim.twin.used(d.Namespace, family, "", nil)
		out = append(out, u.MemoryMiB, u.Cores)
	}
	return out
}

// finish lets everything under way arrive, and then holds the book to the truth of the API server
// alone. Afterwards it removes every pod, and nothing may be left.
func (sim *simulation) finish() error {
	for len(sim.queue) > 0 {
		if err := sim.deliver(1); err != nil {
			return err
		}
	}
	truth := newTwin()
	truth.nodes, truth.quotas = sim.twin.nodes, sim.twin.quotas
	for _, p := range sim.pods {
		truth.observe(p)
	}
	for uid, p := range sim.twin.pods {
		if p.assumed {
			truth.pods[uid] = p
		}
	}
	if d := allBooks(sim.book).diff(truth.books()); d != "" {
		return fmt.Errorf("everything has arrived: %s", d)
	}
	for _, e := range sim.book.Pods() {
		if e.Assumed {
			sim.book.Unassume(e.UID)
		} else if _, err := sim.book.Remove(e.UID); err != nil {
			return err
		}
	}
	for name := range sim.twin.nodes {
		sim.book.RemoveNode(name)
	}
	for _, q := range sim.twin.quotas {
		sim.book.RemoveQuota(q.Namespace, q.Name)
	}
	if left := allBooks(sim.book); len(left) > 0 || len(sim.book.Nodes())+len(sim.book.Namespaces()) > 0 {
		return fmt.Errorf("every pod is gone, and the book still holds %v", left)
	}
	if s := sim.book.Stats(); s.Broken != 0 || s.UnknownReleases != sim.unknown {
		return fmt.Errorf("stats %+v, want %d unknown releases and nothing broken", s, sim.unknown)
	}
	return nil
}
