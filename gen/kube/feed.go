package kube

import (
	"context"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// Observer is called after a feed has changed its book. Its methods must not block, and must not change the objects,
// which may be reduced as by Transform. Calls about pods come one at a time, and so do those about nodes and about
// quotas; different kinds may come concurrently.
type Observer interface {
	// ObservePod is called after every change of a bound pod with devices. old is nil for a new pod, new for a deleted
	// one; old has only its UID. before is the book's entry before the change, nil if there was none.
	ObservePod(old, new *corev1.Pod, before *ledger.Entry, d ledger.Delta)
	// Observe is called after a change of a node or a quota.
	Observe(d ledger.Delta)
	// ObserveProblem is called when a Pod, Node or ResourceQuota cannot be read or accounted for, once for each change
	// of the problem. object is namespace/name, or a node's name.
	ObserveProblem(kind, object string, err error)
}

// NoObserver is an Observer that does nothing, to be embedded.
type NoObserver struct{}

// ObservePod implements Observer.
func (NoObserver) ObservePod(_, _ *corev1.Pod, _ *ledger.Entry, _ ledger.Delta) {}

// Observe implements Observer.
func (NoObserver) Observe(ledger.Delta) {}

// ObserveProblem implements Observer.
func (NoObserver) ObserveProblem(_, _ string, _ error) {}

// FeedOptions are the settings of a feed.
type FeedOptions struct {
	Release      phase.Release // the default release policy
	WithoutNodes bool          // for books of which only the namespaces are read
	Observer     Observer      // nil for none
}

// Feed keeps a ledger.Book equal to what an API server has: all pods with a node, nodes and quotas.
type Feed struct {
	client   kubernetes.Interface
	book     *ledger.Book
	o        FeedOptions
	feeding  sync.Mutex // held while the book learns of pods: a list must not overtake an event
	pods     pods       // under feeding
	seen     atomic.Uint64
	listed   atomic.Bool                 // the book has the first list of pods
	watches  []cache.SharedIndexInformer // of nodes and quotas
	handlers []cache.ResourceEventHandlerRegistration
}

// Config returns a copy of a client's configuration that asks for protobuf, which a feed of many pods needs.
func Config(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return c
}

// NewFeed returns a feed that has not begun.
func NewFeed(client kubernetes.Interface, book *ledger.Book, o FeedOptions) *Feed {
	if o.Observer == nil {
		o.Observer = NoObserver{}
	}
	f := &Feed{client: client, book: book, o: o}
	f.pods = pods{shown: map[types.UID]struct{}{}, problems: map[types.UID]string{}}
	if !o.WithoutNodes {
		f.watch(informers.NewNodeInformer(client, 0, cache.Indexers{}), f.changeNode)
	}
	f.watch(informers.NewResourceQuotaInformer(client, metav1.NamespaceAll, 0, cache.Indexers{}), f.changeQuota)
	return f
}

// watch adds an informer. change is called with its changes: old is nil for a new object, new for a deleted one.
func (f *Feed) watch(informer cache.SharedIndexInformer, change func(old, new any)) {
	// Neither can fail: the informer has not begun.
	_ = informer.SetTransform(Transform)
	handler, _ := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { change(nil, object) },
		UpdateFunc: change,
		DeleteFunc: func(object any) {
			// If the watch missed the deletion, this is the last state that it saw.
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			change(object, nil)
		},
	})
	f.watches, f.handlers = append(f.watches, informer), append(f.handlers, handler)
}

// Run feeds the book until ctx ends. A feed runs once.
func (f *Feed) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, informer := range f.watches {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Go(func() { f.reflector().RunWithContext(ctx) })
	running.Wait()
	return nil
}

// Synced reports whether the book has every object that the API server had when the feed began.
func (f *Feed) Synced() bool {
	for _, handler := range f.handlers {
		if !handler.HasSynced() {
			return false
		}
	}
	return f.listed.Load()
}

// Seen returns the resourceVersion of the newest change of a pod with devices, deletions included, that the watch
// delivered. The book has that change and all before it.
func (f *Feed) Seen() uint64 { return f.seen.Load() }
