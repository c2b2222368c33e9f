// Package leaderelection tells whether this extender may bind.
//
// Two extenders that both bind would each not know what the other has just booked. So an extender binds
// only while the scheduler beside it holds the scheduler's Lease, and in each term of office begins only
// after it has seen, by a consistent list, everything that was bound before.
package leaderelection

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	informers "k8s.io/client-go/informers/coordination/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Lead watches one Lease. With an empty Name there is nothing to hold: the operator promises that there
// is one scheduler.
type Lead struct {
	Namespace, Name string
	Identity        string // the scheduler's is this, "_" and a UUID
	// CatchUp brings the books up to date with everything bound so far.
	CatchUp func(context.Context) error
	Now     func() time.Time
	Log     *zap.Logger

	mu     sync.Mutex
	lease  *coordinationv1.Lease
	synced func() bool   // whether the Lease, or that there is none, has been read
	ready  string        // the term for which CatchUp has succeeded
	change chan struct{} // closed when ready changes
}

// May returns nil when the pod may be bound now, else why not. While the books catch up at the beginning
// of a term it waits.
func (l *Lead) May(ctx context.Context) error {
	for {
		l.mu.Lock()
		term, err := l.term()
		ready, change := l.ready, l.changed()
		l.mu.Unlock()
		if err != nil || term == ready {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the books are not up to date yet: %w", context.Cause(ctx))
		case <-change:
		}
	}
}

// Leads reports whether the scheduler beside this extender is in office.
func (l *Lead) Leads() bool { return l.Office() == nil }

// Office returns nil when the scheduler beside this extender is in office, else who is.
func (l *Lead) Office() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.term()
	return err
}

// Ready returns nil once the Lease can be read, whoever holds it.
func (l *Lead) Ready() error {
	l.mu.Lock()
	synced := l.synced
	l.mu.Unlock()
	if l.Name == "" || synced != nil && synced() {
		return nil
	}
	return fmt.Errorf("lease %s/%s cannot be read (may this service account get, list and watch it?): without it nothing is bound", l.Namespace, l.Name)
}

// term names the term of office that runs now; the error says who else is in office.
func (l *Lead) term() (string, error) {
	if l.Name == "" {
		return "always", nil
	}
	what := fmt.Sprintf("lease %s/%s", l.Namespace, l.Name)
	if l.lease == nil {
		return "", fmt.Errorf("%s has not been seen: only the extender beside the leading scheduler binds", what)
	}
	spec := l.lease.Spec
	if spec.HolderIdentity == nil || !strings.HasPrefix(*spec.HolderIdentity, l.Identity+"_") {
		holder := "nobody"
		if spec.HolderIdentity != nil && *spec.HolderIdentity != "" {
			holder = *spec.HolderIdentity
		}
		return "", fmt.Errorf("%s is held by %s, not by the scheduler beside this extender (%s_…, --identity)", what, holder, l.Identity)
	}
	if spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return "", fmt.Errorf("%s has no renewTime or leaseDurationSeconds", what)
	}
	expiry := spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
	if l.Now().After(expiry) {
		return "", fmt.Errorf("%s expired at %s", what, expiry.Format(time.RFC3339))
	}
	return fmt.Sprintf("%s %s", *spec.HolderIdentity, spec.AcquireTime), nil
}

func (l *Lead) changed() chan struct{} {
	if l.change == nil {
		l.change = make(chan struct{})
	}
	return l.change
}

// Observe takes the truth about the Lease; nil when it is gone.
func (l *Lead) Observe(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = lease
}

// Run catches up at the beginning of each term, until ctx ends.
func (l *Lead) Run(ctx context.Context, client kubernetes.Interface) {
	look := make(chan struct{}, 1)
	look <- struct{}{}
	if l.Name != "" {
		go l.watch(ctx, client, look)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-look:
		}
		if err := l.begin(ctx); err != nil && ctx.Err() == nil {
			l.Log.Error("books cannot be brought up to date, so nothing is bound", zap.Error(err))
			time.AfterFunc(time.Second, func() { wake(look) })
		}
	}
}

// begin catches up if a term has begun.
func (l *Lead) begin(ctx context.Context) error {
	l.mu.Lock()
	term, err := l.term()
	ready := l.ready
	l.mu.Unlock()
	if err != nil || term == ready {
		return nil
	}
	if err := l.CatchUp(ctx); err != nil {
		return err
	}
	l.Log.Info("this extender binds now", zap.String("term", term))
	l.mu.Lock()
	l.ready = term
	close(l.changed())
	l.change = nil
	l.mu.Unlock()
	return nil
}

func (l *Lead) watch(ctx context.Context, client kubernetes.Interface, look chan<- struct{}) {
	informer := informers.NewFilteredLeaseInformer(client, l.Namespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, l.Name).String()
	})
	l.mu.Lock()
	l.synced = informer.HasSynced
	l.mu.Unlock()
	tell := func(object any) {
		lease, _ := object.(*coordinationv1.Lease)
		l.Observe(lease)
		wake(look)
	}
	// Cannot fail: the informer has not begun.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    tell,
		UpdateFunc: func(_, object any) { tell(object) },
		DeleteFunc: func(any) { tell(nil) },
	})
	informer.RunWithContext(ctx)
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
