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

// FeedOptions are a feed's default release policy, what it leaves out and whom it tells. The functions are
// optional and must not block; the objects they get may be reduced as by Transform, and are read only. OnPod is called
// by one goroutine at a time, and so are OnNode and OnQuota; each may be called beside the others, and
// OnProblem by any of them.
type FeedOptions struct {
	Release phase.Release
	// WithoutNodes leaves the nodes out, for books of which only the namespaces are read.
	WithoutNodes bool
	// OnPod is told of every change of a bound pod with devices, after the book. old is nil for a new pod,
	// new for one that is gone. Of old there is the UID: what it was, the book's entry before the change
	// tells, which is nil when the book held nothing.
	OnPod func(old, new *corev1.Pod, before *ledger.Entry, d ledger.Delta)
	// OnNode and OnQuota are told what a change of a node or a quota changed in the books.
	OnNode, OnQuota func(d ledger.Delta)
	// OnProblem is told what cannot be read or accounted for in a *corev1.Pod, *corev1.Node or
	// *corev1.ResourceQuota, once for each change of what is wrong with it.
	OnProblem func(object runtime.Object, err error)
}

// Feed keeps a ledger.Book true to an API server: all pods with a node, nodes and quotas.
type Feed struct {
	client  kubernetes.Interface
	book    *ledger.Book
	o       FeedOptions
	feeding sync.Mutex // held while pods are told to the book: a list must not overtake an event
	pods    pods       // under feeding
	seen    atomic.Uint64
	listed  atomic.Bool                 // the book has been told of the first list of pods
	watches []cache.SharedIndexInformer // of nodes and quotas
	told    []cache.ResourceEventHandlerRegistration
}

// Config returns a copy of a client's configuration that asks for protobuf, which a feed over many pods
// needs.
func Config(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return c
}

// NewFeed returns a feed that has not begun.
func NewFeed(client kubernetes.Interface, book *ledger.Book, o FeedOptions) *Feed {
	if o.OnPod == nil {
		o.OnPod = func(_, _ *corev1.Pod, _ *ledger.Entry, _ ledger.Delta) {}
	}
	if o.OnNode == nil {
		o.OnNode = func(ledger.Delta) {}
	}
	if o.OnQuota == nil {
		o.OnQuota = func(ledger.Delta) {}
	}
	if o.OnProblem == nil {
		o.OnProblem = func(runtime.Object, error) {}
	}
	f := &Feed{client: client, book: book, o: o, pods: pods{shown: map[types.UID]struct{}{}, problems: map[types.UID]string{}}}
	if !o.WithoutNodes {
		f.watch(informers.NewNodeInformer(client, 0, cache.Indexers{}), f.node)
	}
	f.watch(informers.NewResourceQuotaInformer(client, metav1.NamespaceAll, 0, cache.Indexers{}), f.quota)
	return f
}

// watch has an informer tell its changes: old is nil for a new object, new for one that is gone.
func (f *Feed) watch(informer cache.SharedIndexInformer, change func(old, new any)) {
	// Neither can fail: the informer has not begun.
	_ = informer.SetTransform(Transform)
	told, _ := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { change(nil, object) },
		UpdateFunc: change,
		DeleteFunc: func(object any) {
			// When the watch missed the deletion this is the last that was seen.
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			change(object, nil)
		},
	})
	f.watches, f.told = append(f.watches, informer), append(f.told, told)
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

// Synced reports whether the book has been told of every object that the API server had when the feed
// began.
func (f *Feed) Synced() bool {
	for _, told := range f.told {
		if !told.HasSynced() {
			return false
		}
	}
	return f.listed.Load()
}

// Seen returns the resourceVersion of the newest change of a pod with devices that the watch showed, its end
// included: the book has been told of it and of all before it.
func (f *Feed) Seen() uint64 { return f.seen.Load() }
