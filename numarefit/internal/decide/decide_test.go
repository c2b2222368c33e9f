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
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
	"github.com/phasegpu/phasegpu/numarefit/internal/fakeapi"
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

// newAPI has a pod of an init container with 30 GiB on GPU-a and an app with 20 on GPU-b, of 40.
func newAPI() *fakeapi.API {
	pod := rt.Pod("p", rt.Container{Class: 'i', Entry: rt.Share("GPU-a", 30720)},
		rt.Container{Class: 'a', Entry: rt.Share("GPU-b", 20480)})
	node := rt.Node(rt.Card("GPU-a", 40960, 10, ""), rt.Card("GPU-b", 40960, 10, ""), rt.Card("GPU-c", 40960, 10, ""))
	return fakeapi.New(rt.Annotated(pod, rt.Alignment, "strict"), node)
}

func request(allowed ...string) *refit.Request { return rt.Request(newAPI().Target, 0, allowed...) }

func decider(api *fakeapi.API) *Decider { return &Decider{Store: api, Settle: time.Minute} }

// sequence returns the given errors for writes in order, then nil.
func sequence(all ...error) func(int) error {
	return func(n int) error {
		if n > len(all) {
			return nil
		}
		return all[n-1]
	}
}

func always(err error) func(int) error { return func(int) error { return err } }

// once makes a change of the pod before the first write, and returns err for that write.
func once(api *fakeapi.API, err error, change func(*corev1.Pod)) func(int) error {
	return func(n int) error {
		if n > 1 {
			return nil
		}
		change(api.Target)
		api.Changed()
		return err
	}
}

// late carries out the first write just before the second, and returns err for the second.
func late(api *fakeapi.API, err error) func(int) error {
	return func(n int) error {
		if n == 1 {
			return errTimeout
		}
		return errors.Join(api.Patch("p", "1", rt.Record, onB), err)
	}
}

func label(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }

func report(p *corev1.Pod) { p.Status.StartTime = new(metav1.Now()) }

func edit(record string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[rt.Record] = record }
}

// gone deletes the pod before the first write.
func gone(api *fakeapi.API, err error) func(int) error {
	return func(int) error { api.Target = nil; return err }
}

// The outcome of the write.
func TestWrite(t *testing.T) {
	for _, test := range []struct {
		name    string
		allowed string // GPU-b when empty
		before  func(*fakeapi.API) func(int) error
		after   func(int) error
		want    string // the record
		moved   bool
		refused refit.Reason
		writes  int
		says    string // in the refusal
	}{
		{name: "one write", want: onB, moved: true, writes: 1},
		{name: "none when the devices are allowed", allowed: "GPU-a,GPU-b", want: asRecorded},
		{
			name: "the pod changed once meanwhile", want: onB, moved: true, writes: 2,
			before: func(api *fakeapi.API) func(int) error { return once(api, nil, label) },
		},
		{
			name: "the pod changes each time", want: asRecorded, refused: refit.Conflict, writes: 2,
			before: func(api *fakeapi.API) func(int) error { return func(int) error { api.Changed(); return nil } },
		},
		{
			name: "kubelet reported meanwhile", want: asRecorded, refused: refit.NotPending, writes: 1,
			before: func(api *fakeapi.API) func(int) error { return once(api, nil, report) },
		},
		{
			name: "the record was edited meanwhile", want: "?", refused: refit.UnreadableRecord, writes: 1,
			before: func(api *fakeapi.API) func(int) error { return once(api, nil, edit("?")) },
		},
		{
			name: "another writer moved it meanwhile", want: onB, writes: 1,
			before: func(api *fakeapi.API) func(int) error { return once(api, nil, edit(onB)) },
		},
		{
			name: "the pod is gone meanwhile", refused: refit.PodGone, writes: 1,
			before: func(api *fakeapi.API) func(int) error { return gone(api, nil) },
		},
		{
			name: "the pod is replaced meanwhile", want: asRecorded, refused: refit.PodReplaced, writes: 1,
			before: func(api *fakeapi.API) func(int) error {
				return once(api, nil,
					func(p *corev1.Pod) { p.UID = "uid-2" })
			},
		},
		{
			name: "refused for good", want: asRecorded, refused: refit.Unavailable, writes: 1, says: "a policy",
			before: func(*fakeapi.API) func(int) error { return always(errPolicy) },
		},
		{
			name: "the answer is lost, and it was carried out", want: onB, moved: true, writes: 1,
			after: always(errBroken),
		},
		{
			name: "the answer is lost, and it was not carried out", want: onB, moved: true, writes: 2,
			before: func(*fakeapi.API) func(int) error { return sequence(errTimeout) },
		},
		{
			name: "etcd does not answer", want: asRecorded, refused: refit.Unavailable, writes: 2,
			says:   "not carried out yet",
			before: func(*fakeapi.API) func(int) error { return always(errEtcd) },
		},
		{ // the second write meets the first
			name: "carried out later than asked about", want: onB, moved: true, writes: 2,
			before: func(api *fakeapi.API) func(int) error { return late(api, nil) },
		},
		{
			name: "carried out when the next is refused", want: onB, moved: true, writes: 2,
			before: func(api *fakeapi.API) func(int) error { return late(api, errPolicy) },
		},
		{
			name: "on its way when the next is refused", want: asRecorded, refused: refit.Unavailable, writes: 2,
			says:   "not carried out yet",
			before: func(*fakeapi.API) func(int) error { return sequence(errTimeout, errPolicy) },
		},
		{
			name: "lost, and the pod has changed since, so it never will be", want: asRecorded,
			refused: refit.NotPending,
			writes:  1, says: "kubelet has reported",
			before: func(api *fakeapi.API) func(int) error { return once(api, errBroken, report) },
		},
		{
			name: "lost, and the pod is gone since", refused: refit.PodGone, writes: 1,
			before: func(api *fakeapi.API) func(int) error { return gone(api, errBroken) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			api := newAPI()
			if api.After = test.after; test.before != nil {
				api.Before = test.before(api)
			}
			allowed := "GPU-b"
			if test.allowed != "" {
				allowed = test.allowed
			}
			o := decider(api).Refit(t.Context(), request(strings.Split(allowed, ",")...))
			check(t, api, o, test.want, test.moved, test.refused, test.says)
			if api.Writes() != test.writes {
				t.Errorf("%d writes, want %d", api.Writes(), test.writes)
			}
			if test.says == "kubelet has reported" && strings.Contains(o.Refusal.Message, "yet") {
				t.Errorf("the refusal expects a write that cannot come any more: %q", o.Refusal.Message)
			}
		})
	}
}

// check compares an outcome and the record with what they should be.
func check(t *testing.T, api *fakeapi.API, o Outcome, want string, moved bool, refused refit.Reason, says string) {
	t.Helper()
	record := ""
	if api.Target != nil {
		record = api.Target.Annotations[rt.Record]
	}
	if diff := cmp.Diff(want, record); diff != "" {
		t.Errorf("record (-want +got): %s", diff)
	}
	if got := rt.Reason(o.Refusal); got != refused || (o.Answer == nil) != (refused != "") {
		t.Fatalf("refused with %v, answered %v, want %q", o.Refusal, o.Answer, refused)
	}
	if o.Answer == nil {
		if !strings.Contains(o.Refusal.Message, says) {
			t.Errorf("it says %q, want %q", o.Refusal.Message, says)
		}
		return
	}
	uuid, _, _ := strings.Cut(want, ",")
	if diff := cmp.Diff(&refit.Answer{Devices: []string{uuid}, Moved: moved}, o.Answer); diff != "" {
		t.Errorf("answer (-want +got): %s", diff)
	}
	if o.Pod == nil || o.Pod.UID != "p" {
		t.Errorf("the pod of the event is %v", o.Pod)
	}
}

// The first of two writes in flight may be decided otherwise than the second: either counts.
func TestEitherOfTwoLostWrites(t *testing.T) {
	onC := strings.Replace(asRecorded, "GPU-a", "GPU-c", 1)
	for want, second := range map[string]func(*fakeapi.API) error{
		onB: func(api *fakeapi.API) error { return errors.Join(api.Patch("p", "1", rt.Record, onB), errBroken) },
		onC: func(*fakeapi.API) error { return nil },
	} {
		api := newAPI()
		api.Before = func(n int) error {
			api.Machine.Annotations["hami.io/device-cordon"] = "GPU-b" // the second goes to GPU-c
			if n == 1 {
				return errBroken
			}
			return second(api)
		}
		api.After = always(errBroken)
		check(t, api, decider(api).Refit(t.Context(), request("GPU-b", "GPU-c")), want, true, "", "")
	}
}

// When its time is over a request ends at once, except that the outcome of a write is looked up.
func TestTime(t *testing.T) {
	for _, test := range []struct {
		name    string
		settle  time.Duration
		at      func(api *fakeapi.API, over func(int) error)
		want    string
		moved   bool
		refused refit.Reason
		says    string
	}{
		{"before the pod is read", time.Minute, func(_ *fakeapi.API, over func(int) error) { _ = over(0) },
			asRecorded, false, refit.TooLate, "reading pod"},
		{"before the node's pods are read", time.Minute, func(api *fakeapi.API, over func(int) error) {
			api.OnCall = func(call string) error {
				if strings.HasPrefix(call, "pods of") {
					_ = over(0)
				}
				return nil
			}
		}, asRecorded, false, refit.TooLate, "reading the pods"},
		{"in a write that is carried out", time.Minute, func(api *fakeapi.API,
			over func(int) error) {
			api.After = over
		},
			onB, true, "", ""},
		{"in a write that is not", time.Minute, func(api *fakeapi.API, over func(int) error) { api.Before = over },
			asRecorded, false, refit.TooLate, "not carried out yet"},
		{"in a write of which nothing is heard", 0, func(api *fakeapi.API, over func(int) error) { api.After = over },
			onB, false, refit.TooLate, "not known"},
	} {
		t.Run(test.name, func(t *testing.T) {
			api := newAPI()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			test.at(api, func(int) error { cancel(); return context.DeadlineExceeded })
			o := (&Decider{Store: api, Settle: test.settle}).Refit(ctx, request("GPU-b"))
			check(t, api, o, test.want, test.moved, test.refused, test.says)
		})
	}
}

// A request is refused if something cannot be read, and nothing is written.
func TestReads(t *testing.T) {
	failing := func(call string) func(*fakeapi.API) {
		return func(api *fakeapi.API) {
			api.OnCall = func(what string) error {
				if strings.HasPrefix(what, call) {
					return errEtcd
				}
				return nil
			}
		}
	}
	for _, test := range []struct {
		name    string
		set     func(*fakeapi.API)
		refused refit.Reason
		reads   int
	}{
		{"no pod", func(api *fakeapi.API) { api.Target = nil }, refit.PodGone, 1},
		{"another pod", func(api *fakeapi.API) { api.Target.UID = "uid-2" }, refit.PodReplaced, 1},
		{"a pod of another node", func(api *fakeapi.API) { api.Target.Spec.NodeName = "other" }, refit.BoundElsewhere,
			1},
		{"no node", func(api *fakeapi.API) { api.Machine = nil }, refit.NodeGone, 3},
		{"the pod not", failing(""), refit.Unavailable, 1},
		{"the node not", failing("node "), refit.Unavailable, 2},
		{"the node's pods not", failing("pods of "), refit.Unavailable, 3},
	} {
		api := newAPI()
		test.set(api)
		o := decider(api).Refit(t.Context(), request("GPU-b"))
		if rt.Reason(o.Refusal) != test.refused || len(api.Calls) != test.reads || api.Writes() != 0 {
			t.Errorf("%s: %v after %v, want %s after %d reads", test.name, o.Refusal, api.Calls, test.refused,
				test.reads)
		}
		if got := o.Pod != nil; got != (test.reads > 1) {
			t.Errorf("%s: the outcome has a pod: %v", test.name, got)
		}
	}
}
