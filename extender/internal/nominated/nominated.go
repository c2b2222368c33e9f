// Package nominated knows what pods are going to hold of nodes to which kube-scheduler has nominated them: others were
// evicted for them, and kube-scheduler keeps for them what it sees, which is not the devices. So the extender does.
//
// That a pod is nominated is a fact about it (status.nominatedNodeName, no spec.nodeName), which a watch shows.
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

	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Set is the pods that are nominated, and the bound ones that are being deleted, for whose end they wait. It may be
// nil, for nobody.
type Set struct {
	Defaults podrequest.Defaults
	Booked   func(uid string) bool // whether the books hold the pod: its binding is on its way
	Ended    func(node string)     // told when nobody keeps something of a node any more who did

	mu     sync.RWMutex
	pods   map[string]*podrequest.Request // by UID
	ending map[string]bool                // by UID
	synced func() bool
}

// Run watches until ctx ends.
func (s *Set) Run(ctx context.Context, client kubernetes.Interface) {
	informer := informers.NewFilteredPodInformer(client, metav1.NamespaceAll, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.AndSelectors(
			fields.OneTermEqualSelector("spec.nodeName", ""), fields.OneTermNotEqualSelector("status.nominatedNodeName", ""),
		).String()
	})
	// It cannot fail: the informer has not begun.
	told, _ := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.Observe(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { s.Observe(object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			s.forget(string(object.(*corev1.Pod).UID))
		},
	})
	s.mu.Lock()
	s.synced = told.HasSynced
	s.mu.Unlock()
	informer.RunWithContext(ctx)
}

// Synced reports whether all who were nominated when Run began are known.
func (s *Set) Synced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced != nil && s.synced()
}

// Observe is told of a pod: whether it is nominated, it says itself.
func (s *Set) Observe(pod *corev1.Pod) {
	p, err := podrequest.Parse(pod, s.Defaults)
	if err != nil || !p.Devices || p.Nominated == "" || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || kube.Status(pod).Terminal {
		s.forget(string(pod.UID)) // of a pod that cannot be read its own Filter tells
		return
	}
	s.mu.Lock()
	before := s.pods[p.UID]
	if s.pods == nil {
		s.pods = map[string]*podrequest.Request{}
	}
	s.pods[p.UID] = p
	s.mu.Unlock()
	if before != nil && before.Nominated != p.Nominated {
		s.Ended(before.Nominated)
	}
}

func (s *Set) forget(uid string) {
	s.mu.Lock()
	before := s.pods[uid]
	delete(s.pods, uid)
	s.mu.Unlock()
	if before != nil {
		s.Ended(before.Nominated)
	}
}

// Bound is told what the watch shows of a bound pod with devices; new is nil when it is gone.
func (s *Set) Bound(uid string, new *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case new == nil:
		delete(s.ending, uid)
	case new.DeletionTimestamp != nil:
		if s.ending == nil {
			s.ending = map[string]bool{}
		}
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

// Before returns the claims of those who come before a pod.
func (s *Set) Before(p *podrequest.Request) Claims { return s.From(p.Priority).Before(p) }

// From returns the claims of all who are of a priority or a higher one.
func (s *Set) From(priority int32) Claims {
	if s == nil {
		return Claims{}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var c Claims
	for uid, q := range s.pods {
		if q.Priority < priority || s.Booked(uid) {
			continue
		}
		if c.pods == nil {
			c.pods = map[string][]*podrequest.Request{}
		}
		c.pods[q.Nominated] = append(c.pods[q.Nominated], q)
	}
	if c.pods == nil {
		return c
	}
	for _, pods := range c.pods {
		slices.SortFunc(pods, func(a, b *podrequest.Request) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.UID, b.UID))
		})
	}
	for uid := range s.ending {
		c.ending = append(c.ending, uid)
	}
	return c
}
