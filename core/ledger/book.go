package ledger

import "github.com/phasegpu/phasegpu/core/device"

// Charge is what a namespace is charged for one family: Slots counts devices, MemoryMiB is
// MiB × devices and Cores percent × devices, each the maximum over the remaining phases of the phase's
// total.
type Charge = device.Amount

// Book is the ledger. Its methods may be called from any goroutine; reads never wait for writes.
type Book struct{ _ int }

// New returns an empty book.
func New() *Book { panic("not written yet") }

// Delta tells what a fact changed on a node, so that callers can wake pods that wait for room.
type Delta struct {
	Node      string
	Namespace string
	Changed   bool // the books differ from before
	Released  bool // something on the node or in the namespace became less
	Raised    bool // something became more
}

// Observe takes the truth about a pod and applies the difference in one step. An observation with a
// node replaces an assumption; one without a node does not (the watch may be behind).
func (b *Book) Observe(p Pod) Delta { panic("not written yet") }

// Forget subtracts what the book itself holds for a pod, whatever a delete event carried. It is an
// error, counted in Stats, when the book holds nothing.
func (b *Book) Forget(uid string) (Delta, error) { panic("not written yet") }

// Assume decides on an allocation for a pod on the live book and books it in the same step: all or
// nothing, quota included. place is called with the node's view without the pod and returns the
// allocation. p.Node names the node and p.Allocation is ignored. Assuming a pod again replaces its
// assumption. Errors: what place returned, *QuotaError, ErrBound when the pod was observed on a node.
func (b *Book) Assume(p Pod, place func(*View) (device.Allocation, error)) (device.Allocation, error) {
	panic("not written yet")
}

// Withdraw ends an assumption after a definite refusal. A pod that has been observed on a node stays.
func (b *Book) Withdraw(uid string) Delta { panic("not written yet") }

// SetNode takes the truth about a node's devices; RemoveNode that it is gone. Entries of pods there
// stay, are reported, and count again when a device comes back.
func (b *Book) SetNode(n Node) Delta                     { panic("not written yet") }
func (b *Book) RemoveNode(name string) Delta             { panic("not written yet") }
func (b *Book) SetQuota(q Quota) Delta                   { panic("not written yet") }
func (b *Book) RemoveQuota(namespace, name string) Delta { panic("not written yet") }

// Node returns an immutable view of a node, nil when the book knows neither the node nor a pod there.
func (b *Book) Node(name string) *View { panic("not written yet") }

// CheckQuota reports whether a namespace's quotas have room for the charges (by family) of a pod of
// that scope, beside what is used without the pod of that UID: nil or a *QuotaError.
func (b *Book) CheckQuota(namespace, uid string, s Scope, charges map[string]Charge) error {
	panic("not written yet")
}

// QuotaError says which quota a pod would exceed, and by what numbers.
type QuotaError struct {
	Namespace, Quota string
	Limit            Limit
	Used, Asked      int64 // MiB or percent, by Limit.Dimension
}

func (e *QuotaError) Error() string { panic("not written yet") }
