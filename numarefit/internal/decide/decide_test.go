package decide

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/gen/refit"
)

const (
	asRecorded = "GPU-a,NVIDIA,30720,0:;GPU-b,NVIDIA,20480,0:;"
	onB        = "GPU-b,NVIDIA,30720,0:;GPU-b,NVIDIA,20480,0:;"
)

var (
	errBroken  = errors.New("connection reset by peer")
	errEtcd    = apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	errPolicy  = apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("a policy"))
	errTimeout = apierrors.NewTimeoutError("later", 1)
)

// first returns what happens at the first write, and at no other.
func first(do func() error) func(int) error {
	return func(n int) error {
		if n == 1 {
			return do()
		}
		return nil
	}
}

func always(err error) func(int) error { return func(int) error { return err } }

// What becomes of the write: case 47 and the 7.
func TestWrite(t *testing.T) {
	for _, test := range []struct {
		name    string
		allowed string
		set     func(*world)
		want    string // the record
		moved   bool
		refused refit.Reason
		writes  int
		says    string // in the refusal
	}{
		{name: "one write", set: func(*world) {}, want: onB, moved: true, writes: 1},
		{name: "none when the devices are allowed", allowed: "GPU-a,GPU-b", set: func(*world) {}, want: asRecorded},
		{
			name: "the pod changed once meanwhile", want: onB, moved: true, writes: 2,
			set: func(w *world) {
				w.before = first(func() error { w.pod.Labels = map[string]string{"a": "b"}; w.changed(); return nil })
			},
		},
		{
			name: "the pod changes each time", want: asRecorded, refused: refit.Conflict, writes: 2,
			set: func(w *world) { w.before = func(int) error { w.changed(); return nil } },
		},
		{
			name: "kubelet reported meanwhile", want: asRecorded, refused: refit.NotPending, writes: 1,
			set: func(w *world) {
				w.before = first(func() error { now := metav1.Now(); w.pod.Status.StartTime = &now; w.changed(); return nil })
			},
		},
		{
			name: "the record was edited meanwhile", want: "?", refused: refit.UnreadableRecord, writes: 1,
			set: func(w *world) {
				w.before = first(func() error { w.pod.Annotations[record] = "?"; w.changed(); return nil })
			},
		},
		{
			name: "somebody else moved it meanwhile", want: onB, writes: 1,
			set: func(w *world) {
				w.before = first(func() error { w.pod.Annotations[record] = onB; w.changed(); return nil })
			},
		},
		{
			name: "case 30: the pod is gone meanwhile", want: "", refused: refit.PodGone, writes: 1,
			set: func(w *world) { w.before = first(func() error { w.pod = nil; return nil }) },
		},
		{
			name: "the pod is replaced meanwhile", want: asRecorded, refused: refit.PodReplaced, writes: 1,
			set: func(w *world) { w.before = first(func() error { w.pod.UID = "uid-2"; w.changed(); return nil }) },
		},
		{
			name: "refused for good", want: asRecorded, refused: refit.Unavailable, writes: 1, says: "a policy",
			set: func(w *world) { w.before = always(errPolicy) },
		},
		{
			name: "the answer is lost, and it was carried out", want: onB, moved: true, writes: 1,
			set: func(w *world) { w.after = always(errBroken) },
		},
		{
			name: "the answer is lost, and it was not carried out", want: onB, moved: true, writes: 2,
			set: func(w *world) { w.before = first(func() error { return errTimeout }) },
		},
		{
			name: "etcd does not answer", want: asRecorded, refused: refit.Unavailable, writes: 2, says: "not carried out yet",
			set: func(w *world) { w.before = always(errEtcd) },
		},
		{
			name: "carried out later than asked about", want: onB, moved: true, writes: 2,
			set: func(w *world) {
				w.before = func(n int) error {
					if n == 1 {
						return errTimeout
					}
					return w.write("uid-1", "1", record, onB) // the first write, at last; the second meets it
				}
			},
		},
		{
			name: "carried out when the next is refused", want: onB, moved: true, writes: 2,
			set: func(w *world) {
				w.before = func(n int) error {
					if n == 1 {
						return errTimeout
					}
					if err := w.write("uid-1", "1", record, onB); err != nil {
						return err
					}
					return errPolicy
				}
			},
		},
		{
			name: "on its way when the next is refused", want: asRecorded, refused: refit.Unavailable, writes: 2, says: "not carried out yet",
			set: func(w *world) {
				w.before = func(n int) error {
					if n == 1 {
						return errTimeout
					}
					return errPolicy
				}
			},
		},
		{
			name: "lost, and the pod has changed since, so it never will be", want: asRecorded, refused: refit.NotPending, writes: 1, says: "kubelet has reported",
			set: func(w *world) {
				w.before = first(func() error {
					now := metav1.Now()
					w.pod.Status.StartTime = &now
					w.changed()
					return errBroken
				})
			},
		},
		{
			name: "lost, and the pod is gone since", want: "", refused: refit.PodGone, writes: 1,
			set: func(w *world) { w.before = first(func() error { w.pod = nil; return errBroken }) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			test.set(w)
			allowed := "GPU-b"
			if test.allowed != "" {
				allowed = test.allowed
			}
			d := &Decider{Store: w, Settle: time.Minute}
			o := d.Refit(t.Context(), w.question(strings.Split(allowed, ",")...))
			check(t, w, o, test.want, test.moved, test.refused)
			if w.writes != test.writes {
				t.Errorf("%d writes, want %d", w.writes, test.writes)
			}
			if o.Refusal != nil {
				if !strings.Contains(o.Refusal.Message, test.says) {
					t.Errorf("it says %q, want %q", o.Refusal.Message, test.says)
				}
				if test.says == "kubelet has reported" && strings.Contains(o.Refusal.Message, "yet") {
					t.Errorf("a write that never will be is feared: %q", o.Refusal.Message)
				}
			}
		})
	}
}

// check compares an outcome and the record with what they should be.
func check(t *testing.T, w *world, o Outcome, want string, moved bool, refused refit.Reason) {
	t.Helper()
	if diff := cmp.Diff(want, w.record(t)); diff != "" {
		t.Errorf("record (-want +got): %s", diff)
	}
	var reason refit.Reason
	if o.Refusal != nil {
		reason = o.Refusal.Reason
	}
	if reason != refused || (o.Answer == nil) != (refused != "") {
		t.Fatalf("refused with %q, answered %v, want %q", reason, o.Answer, refused)
	}
	if o.Answer == nil {
		return
	}
	uuid, _, _ := strings.Cut(want, ",")
	if diff := cmp.Diff(&refit.Answer{Devices: []string{uuid}, Moved: moved}, o.Answer); diff != "" {
		t.Errorf("answer (-want +got): %s", diff)
	}
	if o.Pod == nil || o.Pod.UID != "uid-1" {
		t.Errorf("the pod to tell is %v", o.Pod)
	}
}

// The first of two writes in flight may be decided otherwise than the second: either counts.
func TestEitherOfTwoLostWrites(t *testing.T) {
	w := newWorld()
	onC := strings.Replace(asRecorded, "GPU-a", "GPU-c", 1)
	w.before = func(n int) error {
		if n == 1 {
			w.node.Annotations["hami.io/device-cordon"] = "GPU-b" // the second goes to GPU-c
			return errBroken
		}
		if err := w.write("uid-1", "1", record, onB); err != nil {
			return err
		}
		return errBroken
	}
	d := &Decider{Store: w, Settle: time.Minute}
	check(t, w, d.Refit(t.Context(), w.question("GPU-b", "GPU-c")), onB, true, "")

	w = newWorld()
	w.before = func(n int) error {
		w.node.Annotations["hami.io/device-cordon"] = "GPU-b"
		if n == 1 {
			return errBroken
		}
		return nil
	}
	w.after = func(int) error { return errBroken }
	check(t, w, (&Decider{Store: w, Settle: time.Minute}).Refit(t.Context(), w.question("GPU-b", "GPU-c")), onC, true, "")
}

// Time that is over ends a question at once, but for what became of a write.
func TestTime(t *testing.T) {
	for _, test := range []struct {
		name    string
		settle  time.Duration
		at      func(w *world, over context.CancelFunc)
		want    string
		moved   bool
		refused refit.Reason
		says    string
	}{
		{"before the pod is read", time.Minute, func(_ *world, over context.CancelFunc) { over() }, asRecorded, false, refit.TooLate, "reading pod"},
		{
			"before the node's pods are read", time.Minute, func(w *world, over context.CancelFunc) {
				w.read = func(what string) error {
					if what == "pods" {
						over()
					}
					return nil
				}
			}, asRecorded, false, refit.TooLate, "reading the pods",
		},
		{"in a write that is carried out", time.Minute, func(w *world, over context.CancelFunc) {
			w.after = func(int) error { over(); return context.DeadlineExceeded }
		}, onB, true, "", ""},
		{"in a write that is not", time.Minute, func(w *world, over context.CancelFunc) {
			w.before = func(int) error { over(); return context.DeadlineExceeded }
		}, asRecorded, false, refit.TooLate, "not carried out yet"},
		{"in a write of which nothing is heard", 0, func(w *world, over context.CancelFunc) {
			w.after = func(int) error { over(); return context.DeadlineExceeded }
		}, onB, false, refit.TooLate, "not known"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			ctx, over := context.WithCancel(t.Context())
			defer over()
			test.at(w, over)
			o := (&Decider{Store: w, Settle: test.settle}).Refit(ctx, w.question("GPU-b"))
			check(t, w, o, test.want, test.moved, test.refused)
			if o.Refusal != nil && !strings.Contains(o.Refusal.Message, test.says) {
				t.Errorf("it says %q, want %q", o.Refusal.Message, test.says)
			}
		})
	}
}

// What cannot be read refuses, and nothing is written.
func TestReads(t *testing.T) {
	for _, test := range []struct {
		name    string
		set     func(*world)
		refused refit.Reason
		reads   int
	}{
		{"no pod", func(w *world) { w.pod = nil }, refit.PodGone, 1},
		{"another pod", func(w *world) { w.pod.UID = "uid-2" }, refit.PodReplaced, 1},
		{"a pod of another node", func(w *world) { w.pod.Spec.NodeName = "other" }, refit.BoundElsewhere, 1},
		{"no node", func(w *world) { w.node = nil }, refit.NodeGone, 3},
		{"the pod not", func(w *world) { w.read = func(string) error { return errEtcd } }, refit.Unavailable, 1},
		{"the node not", func(w *world) { w.read = failing("node") }, refit.Unavailable, 2},
		{"the node's pods not", func(w *world) { w.read = failing("pods") }, refit.Unavailable, 3},
	} {
		w := newWorld()
		test.set(w)
		o := (&Decider{Store: w, Settle: time.Minute}).Refit(t.Context(), w.question("GPU-b"))
		if o.Refusal == nil || o.Refusal.Reason != test.refused || w.reads != test.reads || w.writes != 0 {
			t.Errorf("%s: %v after %d reads and %d writes, want %s after %d", test.name, o.Refusal, w.reads, w.writes, test.refused, test.reads)
		}
		if got := o.Pod != nil; got != (test.reads > 1) {
			t.Errorf("%s: a pod to tell: %v", test.name, got)
		}
	}
}

func failing(call string) func(string) error {
	return func(what string) error {
		if what == call {
			return errEtcd
		}
		return nil
	}
}
