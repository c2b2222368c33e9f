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
	worldNodes = 3
	worldPods  = 12
)

// world is an API server with a watch and a ledger that follows it. Versions grow with every write;
// each pod's events come in order, as an informer delivers them, but late, repeated, and mixed with
// lists.
type world struct {
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

func newWorld(bytes []byte) *world {
	return &world{
		tape: tape{bytes}, book: New(), twin: newTwin(),
		pods: map[string]Pod{}, proposals: map[string]Pod{},
	}
}

func (w *world) nodeName() string { return fmt.Sprint("n", w.below(worldNodes)) }

// anyOf returns one of a map's pods.
func (w *world) anyOf(pods map[string]Pod) (Pod, bool) {
	if len(pods) == 0 {
		return Pod{}, false
	}
	uids := slices.Sorted(maps.Keys(pods))
	return pods[uids[w.below(len(uids))]], true
}

// write makes a pod the truth and sends it on its way to the ledger, if the watch selects it.
func (w *world) write(p Pod) {
	w.version++
	p.Version = w.version
	w.pods[p.UID] = p
	if p.Node != "" {
		w.queue = append(w.queue, p)
	}
}

// allocation decides on devices for every container, among four of which a node may list any.
func (w *world) allocation(node string, classes phase.Pod) device.Allocation {
	a := make(device.Allocation, len(classes))
	for i := range a {
		for range w.below(3) {
			k := w.below(4)
			a[i] = append(a[i], device.Share{
				UUID: fmt.Sprint(node, "-G", k), Family: families[k/3],
				Amount: device.Amount{Slots: 1, MemoryMiB: int64(w.below(8)), Cores: []int64{0, 30, 100}[w.below(3)]},
			})
		}
	}
	return a
}

// step lets one thing happen and returns its name; the error says what the book did wrong.
func (w *world) step() (name string, err error) {
	switch w.below(18) {
	case 0, 1:
		return "create", w.create()
	case 2, 3:
		return "assume", w.assume()
	case 4:
		return "bind", w.bind()
	case 5:
		return "withdraw", w.withdraw()
	case 6, 7:
		return "phase", w.change(func(p *Pod) { p.First = w.first(p.Classes) })
	case 8:
		return "rewrite", w.change(func(p *Pod) {
			switch w.below(4) {
			case 0: // refit
				p.Allocation, p.Unreadable = w.allocation(p.Node, p.Classes), ""
			case 1:
				p.Allocation, p.Unreadable = nil, "garbage"
			case 2:
				p.Scope = scopes[w.below(len(scopes))]
			default: // a label
			}
		})
	case 9:
		return "delete", w.remove()
	case 10, 11, 12:
		return "deliver", w.deliver(1 + w.below(4))
	case 13:
		return "repeat", w.repeat()
	case 14:
		return "relist", w.relist()
	case 15:
		return "node", w.node()
	case 16:
		return "quota", w.quota()
	default:
		return "forget nobody", w.forgetNobody()
	}
}

func (w *world) first(c phase.Pod) int {
	k := w.below(c.Len() + 1)
	if k == c.Len() {
		return phase.None
	}
	return k
}

func (w *world) create() error {
	if len(w.pods) >= worldPods {
		return nil
	}
	w.created++
	p := Pod{
		UID: fmt.Sprint("uid-", w.created), Name: fmt.Sprint("pod-", w.created), Namespace: fmt.Sprint("ns", w.below(2)),
		Scope: scopes[w.below(len(scopes))],
	}
	for range 1 + w.below(4) {
		p.Classes = append(p.Classes, phase.Class(w.below(3)))
	}
	w.write(p)
	return nil
}

// assume lets the scheduler decide on a pod that may be bound already, or assumed elsewhere.
func (w *world) assume() error {
	p, ok := w.anyOf(w.pods)
	if !ok {
		return nil
	}
	p.Node, p.First, p.Unreadable = w.nodeName(), 0, ""
	p.Allocation = w.allocation(p.Node, p.Classes)
	want := w.twin.refuses(p)
	got, d, err := w.book.Assume(p, func(v *View) (device.Allocation, error) {
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
	w.proposals[p.UID] = p
	return w.told(d, func() { p.Version = 0; w.twin.pods[p.UID] = fact{Pod: p, assumed: true} })
}

// bind lets a Binding succeed: the truth has the decision now, and the watch will tell.
func (w *world) bind() error {
	p, ok := w.anyOf(w.proposals)
	if !ok {
		return nil
	}
	delete(w.proposals, p.UID)
	if now, ok := w.pods[p.UID]; ok && now.Node == "" {
		w.write(p)
		return nil
	}
	return w.told(w.book.Unassume(p.UID), func() { w.forgetAssumption(p.UID) }) // gone, or bound by another
}

func (w *world) withdraw() error {
	p, ok := w.anyOf(w.pods)
	if !ok {
		return nil
	}
	if _, proposed := w.proposals[p.UID]; !proposed && p.Node != "" && w.twin.pods[p.UID].assumed {
		return nil // it was bound: nobody withdraws it
	}
	delete(w.proposals, p.UID)
	return w.told(w.book.Unassume(p.UID), func() { w.forgetAssumption(p.UID) })
}

func (w *world) forgetAssumption(uid string) {
	if w.twin.pods[uid].assumed {
		delete(w.twin.pods, uid)
	}
}

// change writes a pod; what happens to a pod without a node is told too, by another watch.
func (w *world) change(f func(*Pod)) error {
	p, ok := w.anyOf(w.pods)
	if !ok {
		return nil
	}
	f(&p)
	if p.Node == "" {
		p.Allocation, p.Unreadable = nil, ""
		w.write(p)
		if p.First == phase.None {
			delete(w.proposals, p.UID)
			delete(w.pods, p.UID)
		}
		return w.observe(p)
	}
	w.write(p)
	return nil
}

func (w *world) remove() error {
	p, ok := w.anyOf(w.pods)
	if !ok {
		return nil
	}
	delete(w.pods, p.UID)
	if p.Node != "" {
		p.Version = 0
		w.queue = append(w.queue, p)
	}
	return nil
}

func (w *world) deliver(n int) error {
	for ; n > 0 && len(w.queue) > 0; n-- {
		p := w.queue[0]
		w.queue = w.queue[1:]
		if p.Version != 0 {
			w.past = append(w.past, p)
			if err := w.observe(p); err != nil {
				return err
			}
			continue
		}
		if err := w.forget(p.UID); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) observe(p Pod) error {
	return w.told(w.book.Observe(p), func() { w.twin.observe(p) })
}

func (w *world) forget(uid string) error {
	_, held := w.twin.pods[uid]
	w.past = slices.DeleteFunc(w.past, func(p Pod) bool { return p.UID == uid })
	d, err := w.book.Remove(uid)
	if (err == nil) != held {
		return fmt.Errorf("Remove of %s: error %v, the twin holds it: %t", uid, err, held)
	}
	if err != nil {
		w.unknown++
	}
	return w.told(d, func() { delete(w.twin.pods, uid) })
}

func (w *world) forgetNobody() error { return w.forget("nobody") }

// repeat delivers an event again, the last of its pod or an older one.
func (w *world) repeat() error {
	if len(w.past) == 0 {
		return nil
	}
	return w.observe(w.past[w.below(len(w.past))])
}

// relist takes a list of the truth, sometimes because the watch has lost its events; otherwise those
// come after the list, late.
func (w *world) relist() error {
	var list []Pod
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		if p := w.pods[uid]; p.Node != "" {
			list = append(list, p)
		}
	}
	w.book.Replace(list, w.version)
	maps.DeleteFunc(w.twin.pods, func(_ string, p fact) bool { return !p.assumed })
	for _, p := range list {
		w.twin.observe(p)
	}
	if w.below(2) == 0 {
		w.queue, w.past = nil, nil
		return nil
	}
	// A pod that is not in the list is gone: the twin never hears of it again.
	gone := func(p Pod) bool { return w.pods[p.UID].Node == "" }
	for _, p := range slices.Concat(w.queue, w.past) {
		if gone(p) && p.Version != 0 {
			if d := w.book.Observe(p); d.Changed {
				return fmt.Errorf("pod %s, which the list has not, came back: %+v", p.UID, d)
			}
		}
	}
	w.queue = slices.DeleteFunc(w.queue, gone)
	w.past = slices.DeleteFunc(w.past, gone)
	return nil
}

func (w *world) node() error {
	name := w.nodeName()
	if w.below(4) == 0 {
		return w.told(w.book.RemoveNode(name), func() { delete(w.twin.nodes, name) })
	}
	n := Node{Name: name}
	for k := range 4 {
		if w.below(4) > 0 {
			n.Devices = append(n.Devices, device.Device{
				UUID: fmt.Sprint(name, "-G", k), Index: k, Family: families[k/3], Healthy: w.below(4) > 0,
				Capacity: device.Amount{Slots: 10, MemoryMiB: 20 * int64(w.below(3)), Cores: 100},
			})
		}
	}
	if w.below(8) == 0 {
		n.Unreadable = "inventory: garbage"
	}
	return w.told(w.book.SetNode(n), func() { w.twin.nodes[name] = n })
}

func (w *world) quota() error {
	namespace, name := fmt.Sprint("ns", w.below(2)), fmt.Sprint("q", w.below(2))
	if w.below(3) == 0 {
		return w.told(w.book.RemoveQuota(namespace, name), func() { delete(w.twin.quotas, [2]string{namespace, name}) })
	}
	q := Quota{Namespace: namespace, Name: name}
	if w.below(2) == 0 {
		scope := scopes[w.below(len(scopes))]
		q.Selects = func(s Scope) bool { return s == scope }
	}
	for range w.below(3) {
		q.Limits = append(q.Limits, Limit{Family: families[w.below(2)], Dimension: Dimension(w.below(2)), Max: 25 * int64(w.below(6))})
	}
	return w.told(w.book.SetQuota(q), func() { w.twin.quotas[[2]string{namespace, name}] = q })
}

// told tells the twin what the book has been told, and holds the book's answer to what changed: a sum
// that fell must have been called released, one that rose raised.
func (w *world) told(d Delta, tell func()) error {
	before := w.sums(d)
	tell()
	after := w.sums(d)
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
func (w *world) sums(d Delta) []int64 {
	var out []int64
	for _, node := range []string{d.Node, d.Left} {
		for k := range 4 {
			u := w.twin.held(node, fmt.Sprint(node, "-G", k), "")
			exclusive := int64(0)
			if u.Exclusive {
				exclusive = 1
			}
			out = append(out, u.Slots, u.MemoryMiB, u.Cores, exclusive)
		}
	}
	for _, family := range families {
		u := w.twin.used(d.Namespace, family, "", nil)
		out = append(out, u.MemoryMiB, u.Cores)
	}
	return out
}

// settle lets everything under way arrive, and then holds the book to the truth of the API server
// alone. Afterwards it removes every pod, and nothing may be left.
func (w *world) settle() error {
	for len(w.queue) > 0 {
		if err := w.deliver(1); err != nil {
			return err
		}
	}
	truth := newTwin()
	truth.nodes, truth.quotas = w.twin.nodes, w.twin.quotas
	for _, p := range w.pods {
		truth.observe(p)
	}
	for uid, p := range w.twin.pods {
		if p.assumed {
			truth.pods[uid] = p
		}
	}
	if d := allBooks(w.book).diff(truth.books()); d != "" {
		return fmt.Errorf("everything has arrived: %s", d)
	}
	for _, e := range w.book.Pods() {
		if e.Assumed {
			w.book.Unassume(e.UID)
		} else if _, err := w.book.Remove(e.UID); err != nil {
			return err
		}
	}
	for name := range w.twin.nodes {
		w.book.RemoveNode(name)
	}
	for _, q := range w.twin.quotas {
		w.book.RemoveQuota(q.Namespace, q.Name)
	}
	if left := allBooks(w.book); len(left) > 0 || len(w.book.Nodes())+len(w.book.Namespaces()) > 0 {
		return fmt.Errorf("every pod is gone, and the book still holds %v", left)
	}
	if s := w.book.Stats(); s.Broken != 0 || s.UnknownReleases != w.unknown {
		return fmt.Errorf("stats %+v, want %d unknown releases and nothing broken", s, w.unknown)
	}
	return nil
}
