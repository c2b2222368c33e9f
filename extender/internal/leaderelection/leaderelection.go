// Package leaderelection watches the Lease by which kube-schedulers elect their leader and tells whether this extender
// may bind. The extender takes part in no election of its own.
//
// Of two extenders that both bind, neither would know what the other has just booked. So an extender binds only while
// the scheduler beside it holds the Lease, and in each term only after its books hold, by a consistent list, everything
// that was bound before.
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

// Books are what an extender binds by.
type Books interface {
	// CatchUp brings the books up to date with everything bound so far.
	CatchUp(context.Context) error
}

// SchedulerLease watches the scheduler's Lease. With an empty Name there is no Lease: the operator promises that there
// is one scheduler.
type SchedulerLease struct {
	Namespace, Name string
	Identity        string // the scheduler's is this, "_" and a UUID
	Books           Books
	Now             func() time.Time
	Log             *zap.Logger

	mu     sync.Mutex
	lease  *coordinationv1.Lease
	synced func() bool   // whether the Lease, or that there is none, has been read
	ready  string        // the term for which the books have caught up
	change chan struct{} // closed when ready changes
}

// MayBind returns nil when the extender may bind now, else why not. While the books catch up at the beginning of a term
// it waits.
func (l *SchedulerLease) MayBind(ctx context.Context) error {
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

// Leads reports whether the scheduler beside this extender holds the Lease.
func (l *SchedulerLease) Leads() bool { return l.Standby() == nil }

// Standby returns nil while the scheduler beside this extender holds the Lease, else why this extender stands by.
func (l *SchedulerLease) Standby() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.term()
	return err
}

// Ready returns nil once the Lease can be read, whoever holds it.
func (l *SchedulerLease) Ready() error {
	l.mu.Lock()
	synced := l.synced
	l.mu.Unlock()
	if l.Name == "" || synced != nil && synced() {
		return nil
	}
	return fmt.Errorf("lease %s/%s cannot be read (may this service account get, list and watch it?): "+
		"without it nothing is bound", l.Namespace, l.Name)
}

// term names the current term of the scheduler beside this extender; the error says why it does not lead.
func (l *SchedulerLease) term() (string, error) {
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
		return "", fmt.Errorf("%s is held by %s, not by the scheduler beside this extender (%s_…, --identity)",
			what, holder, l.Identity)
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

func (l *SchedulerLease) changed() chan struct{} {
	if l.change == nil {
		l.change = make(chan struct{})
	}
	return l.change
}

// Observe takes the Lease as the watch shows it, nil when it is gone.
func (l *SchedulerLease) Observe(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = lease
}

// Run has the books catch up at the beginning of each term, until ctx ends.
func (l *SchedulerLease) Run(ctx context.Context, client kubernetes.Interface) {
	check := make(chan struct{}, 1)
	check <- struct{}{}
	if l.Name != "" {
		go l.watch(ctx, client, check)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-check:
		}
		if err := l.begin(ctx); err != nil && ctx.Err() == nil {
			l.Log.Error("books cannot be brought up to date, so nothing is bound", zap.Error(err))
			time.AfterFunc(time.Second, func() { signal(check) })
		}
	}
}

// begin has the books catch up if a term has begun.
func (l *SchedulerLease) begin(ctx context.Context) error {
	l.mu.Lock()
	term, err := l.term()
	ready := l.ready
	l.mu.Unlock()
	if err != nil || term == ready {
		return nil
	}
	if err := l.Books.CatchUp(ctx); err != nil {
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

func (l *SchedulerLease) watch(ctx context.Context, client kubernetes.Interface, check chan<- struct{}) {
	informer := informers.NewFilteredLeaseInformer(client, l.Namespace, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, l.Name).String()
		})
	l.mu.Lock()
	l.synced = informer.HasSynced
	l.mu.Unlock()
	observe := func(object any) {
		lease, _ := object.(*coordinationv1.Lease)
		l.Observe(lease)
		signal(check)
	}
	// Cannot fail: the informer has not begun.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    observe,
		UpdateFunc: func(_, object any) { observe(object) },
		DeleteFunc: func(any) { observe(nil) },
	})
	informer.RunWithContext(ctx)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
