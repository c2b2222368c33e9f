package leaderelection

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/phasegpu/phasegpu/gen/await"
)

var start = time.Unix(1700000000, 0)

func lease(holder string, acquired, renewed time.Time) *coordinationv1.Lease {
	seconds := int32(15)
	a, r := metav1.NewMicroTime(acquired), metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "phasegpu-system", Name: "phasegpu-scheduler"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &a, RenewTime: &r,
		},
	}
}

// books count how often they catch up.
type books struct {
	calls atomic.Int64
	err   error
	hold  chan struct{} // catching up waits for its end, unless it is nil
}

func (b *books) CatchUp(context.Context) error {
	b.calls.Add(1)
	if b.hold != nil {
		<-b.hold
	}
	return b.err
}

func newLease(b *books) *SchedulerLease {
	return &SchedulerLease{
		Namespace: "phasegpu-system", Name: "phasegpu-scheduler", Identity: "host-a", Books: b,
		Now: func() time.Time { return start }, Log: zap.NewNop(),
	}
}

// run watches the Lease for the length of the test.
func run(t *testing.T, l *SchedulerLease, client kubernetes.Interface) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.Run(ctx, client); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
}

func TestHolder(t *testing.T) {
	for name, test := range map[string]struct {
		lease *coordinationv1.Lease
		err   string
	}{
		"the scheduler beside":            {lease("host-a_0b2c", start, start), ""},
		"about to expire":                 {lease("host-a_0b2c", start, start.Add(-15*time.Second)), ""},
		"expired":                         {lease("host-a_0b2c", start, start.Add(-16*time.Second)), "expired"},
		"another":                         {lease("host-b_0b2c", start, start), "held by host-b_0b2c"},
		"another whose name begins alike": {lease("host-a-2_0b2c", start, start), "held by host-a-2_0b2c"},
		"nobody":                          {lease("", start, start), "held by nobody"},
		"empty":                           {&coordinationv1.Lease{}, "held by nobody"},
		"no lease":                        {nil, "has not been seen"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLease(&books{})
			l.Observe(test.lease)
			if err := l.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := l.MayBind(t.Context())
			if test.err == "" != (err == nil) || err != nil && (!strings.Contains(err.Error(), test.err) ||
				!strings.Contains(err.Error(), "phasegpu-system/phasegpu-scheduler")) {
				t.Errorf("got %v, want %q", err, test.err)
			}
			if l.Leads() != (test.err == "") {
				t.Errorf("leads: %v", l.Leads())
			}
		})
	}
}

// In each term nothing is bound before the books have caught up, also when the same scheduler comes back.
func TestCatchesUpInEachTerm(t *testing.T) {
	b := &books{err: errors.New("list failed")}
	l := newLease(b)
	waits := func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := l.MayBind(ctx)
		return err != nil && strings.Contains(err.Error(), "not up to date")
	}
	binds := func(what string, calls int64) {
		t.Helper()
		if err := l.begin(t.Context()); err != nil || l.MayBind(t.Context()) != nil || b.calls.Load() != calls {
			t.Errorf("%s: %v, %v, %d calls", what, err, l.MayBind(t.Context()), b.calls.Load())
		}
	}
	l.Observe(lease("host-a_1", start, start))
	if err := l.begin(t.Context()); !errors.Is(err, b.err) || !waits() {
		t.Errorf("%v; binds before it has caught up", err)
	}
	b.err = nil
	binds("caught up", 2)
	l.Observe(lease("host-a_1", start, start.Add(time.Second)))
	binds("renewed, so in the same term", 2)
	l.Observe(lease("host-b_2", start, start))
	if l.MayBind(t.Context()) == nil {
		t.Error("binds without the lease")
	}
	l.Observe(lease("host-a_1", start.Add(time.Minute), start.Add(time.Minute)))
	if !waits() {
		t.Error("binds in a new term before it has caught up")
	}
}

func TestWaitsWhileCatchingUp(t *testing.T) {
	b := &books{hold: make(chan struct{})}
	l := newLease(b)
	l.Observe(lease("host-a_1", start, start))
	ended := make(chan error, 1)
	go func() { ended <- l.begin(t.Context()) }()
	may := make(chan error, 1)
	go func() { may <- l.MayBind(t.Context()) }()
	select {
	case err := <-may:
		t.Fatalf("answered %v before the list", err)
	default:
	}
	close(b.hold)
	if err := <-may; err != nil {
		t.Error(err)
	}
	<-ended
}

func TestNoLease(t *testing.T) {
	l := newLease(&books{})
	l.Name = ""
	if err := l.begin(t.Context()); err != nil || l.MayBind(t.Context()) != nil || !l.Leads() || l.Ready() != nil {
		t.Errorf("%v, %v, %v", err, l.MayBind(t.Context()), l.Ready())
	}
}

// An extender that cannot read the Lease would never bind: it is not ready, and says what it needs.
func TestReadyOnceTheLeaseIsRead(t *testing.T) {
	l := newLease(&books{})
	client := fake.NewClientset()
	var may atomic.Bool
	client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, apiruntime.Object, error) {
		return !may.Load(), nil, errors.New("forbidden")
	})
	run(t, l, client)
	if err := l.Ready(); err == nil || !strings.Contains(err.Error(), "phasegpu-system/phasegpu-scheduler") {
		t.Errorf("before it is read: %v", err)
	}
	may.Store(true)
	await.Until(t, "readiness", func() bool { return l.Ready() == nil }) // though there is no Lease yet
}

func TestWatchesTheLease(t *testing.T) {
	b, ctx := &books{}, t.Context()
	l := newLease(b)
	client := fake.NewClientset(lease("host-b_1", start, start))
	run(t, l, client)
	await.Until(t, "another to hold the lease", func() bool {
		err := l.MayBind(ctx)
		return err != nil && strings.Contains(err.Error(), "host-b_1")
	})
	leases := client.CoordinationV1().Leases("phasegpu-system")
	if _, err := leases.Update(ctx, lease("host-a_1", start, start), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the term to begin", func() bool { return l.Leads() && l.MayBind(ctx) == nil })
	if err := leases.Delete(ctx, "phasegpu-scheduler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the term to end", func() bool { return l.MayBind(ctx) != nil })
	if n := b.calls.Load(); n != 1 {
		t.Errorf("caught up %d times", n)
	}
}
