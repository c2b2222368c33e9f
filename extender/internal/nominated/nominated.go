// Package nominated knows what pods will reserve on nodes to which kube-scheduler has nominated them. It has evicted
// others for them, and keeps for them what it sees, which is not the devices: those the extender keeps.
//
// That a pod is nominated is a fact about it (status.nominatedNodeName and no spec.nodeName), which a watch shows.
package nominated

import (
	"cmp"
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Book tells whether the ledger holds a pod: then its binding is on its way.
type Book interface {
	Pod(uid string) *ledger.Entry
}

// Observer takes that a pod's nomination to a node has ended.
type Observer interface {
	NodeFreed(node string)
}

// Set is the nominated pods, and the bound ones that are being deleted, for whose end they wait. A nil Set is empty.
type Set struct {
	defaults podrequest.Defaults
	book     Book
	observer Observer

	mu     sync.RWMutex
	pods   map[string]*podrequest.Request // by UID
	ending map[string]bool                // by UID
	synced func() bool
}

// New returns an empty set. The observer may be nil.
func New(d podrequest.Defaults, book Book, observer Observer) *Set {
	return &Set{
		defaults: d, book: book, observer: observer, pods: map[string]*podrequest.Request{}, ending: map[string]bool{},
	}
}

// Run watches until ctx ends.
func (s *Set) Run(ctx context.Context, client kubernetes.Interface) {
	selector := fields.AndSelectors(
		fields.OneTermEqualSelector("spec.nodeName", ""),
		fields.OneTermNotEqualSelector("status.nominatedNodeName", ""),
	).String()
	tweak := func(o *metav1.ListOptions) { o.FieldSelector = selector }
	informer := informers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{}, tweak)
	// It cannot fail: the informer has not begun.
	registration, _ := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.Observe(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { s.Observe(object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			s.remove(string(object.(*corev1.Pod).UID))
		},
	})
	s.mu.Lock()
	s.synced = registration.HasSynced
	s.mu.Unlock()
	informer.RunWithContext(ctx)
}

// Synced reports whether all pods that were nominated when Run began are known.
func (s *Set) Synced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced != nil && s.synced()
}

// Observe takes a pod, nominated or no longer.
func (s *Set) Observe(pod *corev1.Pod) {
	p, err := podrequest.Parse(pod, s.defaults)
	if err != nil || !p.Devices || p.Nominated == "" || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil ||
		kube.IsTerminal(pod) {
		s.remove(string(pod.UID)) // what cannot be parsed its own Filter reports
		return
	}
	s.mu.Lock()
	before := s.pods[p.UID]
	s.pods[p.UID] = p
	s.mu.Unlock()
	if before != nil && before.Nominated != p.Nominated {
		s.freed(before)
	}
}

func (s *Set) remove(uid string) {
	s.mu.Lock()
	before := s.pods[uid]
	delete(s.pods, uid)
	s.mu.Unlock()
	if before != nil {
		s.freed(before)
	}
}

func (s *Set) freed(before *podrequest.Request) {
	if s.observer != nil {
		s.observer.NodeFreed(before.Nominated)
	}
}

// Bound takes what the watch shows of a bound pod with devices; new is nil when it is gone.
func (s *Set) Bound(uid string, new *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case new == nil:
		delete(s.ending, uid)
	case new.DeletionTimestamp != nil:
		s.ending[uid] = true
	}
}

// Has reports whether a pod is known to be nominated.
func (s *Set) Has(uid string) bool {
	if s == nil {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pods[uid] != nil
}

// Ahead returns the nominated pods ahead of a pod.
func (s *Set) Ahead(r *podrequest.Request) Ahead { return s.From(r.Priority).Of(r) }

// From returns all nominated pods of a priority or a higher one.
func (s *Set) From(priority int32) Ahead {
	if s == nil {
		return Ahead{}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var a Ahead
	for uid, q := range s.pods {
		if q.Priority < priority || s.book.Pod(uid) != nil {
			continue
		}
		if a.pods == nil {
			a.pods = map[string][]*podrequest.Request{}
		}
		a.pods[q.Nominated] = append(a.pods[q.Nominated], q)
	}
	for _, pods := range a.pods {
		slices.SortFunc(pods, func(x, y *podrequest.Request) int {
			return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(x.UID, y.UID))
		})
	}
	for uid := range s.ending {
		a.ending = append(a.ending, uid)
	}
	return a
}
