package refit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/phasegpu/phasegpu/e2e/stack"
	"github.com/phasegpu/phasegpu/gen/refit"
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
)

// TestRefit runs everything on one stack, each part on nodes of its own.
func TestRefit(t *testing.T) {
	s := newSite(t)
	t.Run("the books follow a container", s.books)
	t.Run("two at once", s.twice)
	t.Run("real tokens", s.tokens)
	t.Run("pods in the wrong state", s.states)
	t.Run("the service writes records and nothing else", s.rights)
	t.Run("slow clients and old TLS", s.clients)
	t.Run("a patch names the pod as it was read", s.preconditions)
}

// Record and books follow, and audit finds no drift. A move away from the app's card raises the devices' books but not
// the namespace's charge. A pod that waits in the gate is placed again beside it.
func (s *site) books(t *testing.T) {
	ctx := t.Context()
	token := s.node(t, "books")
	pod := s.inGate(t, "books", stack.NewPod("default", "moves", stack.Init("init", stack.GPU(1, 30720)),
		stack.App("app", stack.GPU(1, 20480))))
	if got, want := pod.Annotations[record], "GPU-books-0,NVIDIA,30720,0:;GPU-books-0,NVIDIA,20480,0:;"; got != want {
		t.Fatalf("record %q, want %q", got, want)
	}
	// It fits only beside the init container's card, as long as that is where it was.
	next := stack.NewPod("default", "next", stack.App("app", stack.GPU(1, 15360)))
	next.Spec.NodeSelector = pod.Spec.NodeSelector
	next, err := s.Create(ctx, next)
	must(t, err)
	must(t, s.AwaitReserved(ctx, next, 15360)) // assumed, and waiting in the gate

	a := s.wants(t, "to the other card", token, question(pod, 0, "GPU-books-1"), "")
	if diff := cmp.Diff(&refit.Answer{Devices: []string{"GPU-books-1"}, Moved: true}, a.Answer); diff != "" {
		t.Errorf("answer (-want +got): %s", diff)
	}
	now, err := s.Pod(ctx, pod)
	must(t, err)
	want := pod.DeepCopy()
	want.Annotations[record] = "GPU-books-1,NVIDIA,30720,0:;GPU-books-0,NVIDIA,20480,0:;"
	if diff := cmp.Diff(want.Annotations, now.Annotations); diff != "" {
		t.Errorf("annotations (-want +got): %s", diff)
	}
	if diff := cmp.Diff(want.Spec, now.Spec); diff != "" {
		t.Errorf("the rest of the pod (-want +got): %s", diff)
	}
	must(t, s.AwaitSeen(ctx, pod))
	l, err := s.Ledger(ctx)
	must(t, err)
	for _, d := range l.Pod(pod).Devices {
		if want := map[string]int64{"GPU-books-0": 20480, "GPU-books-1": 30720}[d.UUID]; d.Reserved.MemoryMiB != want {
			t.Errorf("%s is charged %d MiB, want %d", d.UUID, d.Reserved.MemoryMiB, want)
		}
	}
	if used := l.Used()["default/NVIDIA"].MemoryMiB; used != 30720+15360 {
		t.Errorf("the namespace is charged %d MiB, want 30720 and 15360 as before", used)
	}
	if a := s.wants(t, "asked again", token, question(pod, 0, "GPU-books-1"), ""); a.Answer == nil || a.Moved {
		t.Error("moved twice")
	}
	s.event(t, pod, "Refitted")
	s.wants(t, "to no card", token, question(pod, 0, "GPU-other"), refit.UnknownDevice)
	s.event(t, pod, "RefitRefused")

	s.Sim.Resume("books")
	next, err = s.AwaitBound(ctx, next)
	must(t, err)
	if got, want := next.Annotations[record], "GPU-books-0,NVIDIA,15360,0:;"; got != want {
		t.Errorf("the next pod has %q, want %q", got, want)
	}
	must(t, s.Sim.AwaitRunning(ctx, pod, "init"))
	must(t, s.AwaitAudit(ctx))
	must(t, s.Sim.Finish(ctx, pod, "init", 0))
	must(t, s.Sim.AwaitRunning(ctx, pod, "app"))
	must(t, s.AwaitDevice(ctx, "GPU-books-1", 0))
	must(t, s.AwaitAudit(ctx))
	l, err = s.Ledger(ctx)
	must(t, err)
	if over := l.OverCommitted(); len(over) > 0 {
		t.Errorf("over-committed: %v", over)
	}
}

// event waits for an event on a pod.
func (s *site) event(t *testing.T, pod *corev1.Pod, reason string) {
	t.Helper()
	must(t, stack.Eventually(t.Context(), "an event "+reason, func(ctx context.Context) error {
		list, err := s.Client.EventsV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.Regarding.UID == pod.UID {
				return nil
			}
		}
		return fmt.Errorf("%d others", len(list.Items))
	}))
}

// Many requests at once for one pod end in one record.
func (s *site) twice(t *testing.T) {
	ctx := t.Context()
	token := s.node(t, "twice")
	pod := s.inGate(t, "twice", stack.NewPod("default", "twice", stack.Init("init", stack.GPU(1, 30720)),
		stack.App("app", stack.GPU(1, 20480))))
	questions := []*refit.Request{question(pod, 0, "GPU-twice-1"), question(pod, 1, "GPU-twice-1")}
	answers, errs := make([]response, 8), make([]error, 8)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i], errs[i] = s.ask(ctx, token, questions[i%2]) })
	}
	all.Wait()
	must(t, errors.Join(errs...))
	moved, unsure := map[int]bool{}, map[int]bool{}
	for i, a := range answers {
		switch rt.Reason(a.Refusal) {
		case "":
			moved[i%2] = true
		case refit.Conflict:
		case refit.TooLate: // on a busy machine; it may have been moved
			unsure[i%2] = true
		default:
			t.Error(a.Refusal)
		}
	}
	if len(moved) == 0 && len(unsure) == 0 {
		t.Fatalf("no container moved: %+v", answers)
	}
	now, err := s.Pod(ctx, pod)
	must(t, err)
	shares := strings.Split(now.Annotations[record], ";")
	for i, mib := range []string{"30720", "20480"} {
		on := "GPU-twice-0"
		if moved[i] {
			on = "GPU-twice-1"
		}
		if want := on + ",NVIDIA," + mib + ",0:"; shares[i] != want && (moved[i] || !unsure[i]) {
			t.Errorf("container %d has %q, want %q", i, shares[i], want)
		}
	}
	s.Sim.Resume("twice")
	must(t, s.Sim.AwaitRunning(ctx, pod, "init"))
	must(t, s.AwaitAudit(ctx))
	must(t, s.Delete(ctx, pod))
	must(t, s.AwaitAudit(ctx))
}

// Callers with tokens that the API server issued.
func (s *site) tokens(t *testing.T) {
	ctx := t.Context()
	token := s.node(t, "mine")
	other := s.node(t, "other")
	pod := s.inGate(t, "mine", stack.NewPod("default", "asked-about", stack.App("app", stack.GPU(1, 1000))))
	q := question(pod, 0, "GPU-mine-1")
	plugin, err := s.Client.CoreV1().Pods(stack.NodeNamespace).Get(ctx, "phasegpu-device-plugin-mine",
		metav1.GetOptions{})
	must(t, err)
	stranger := s.onNode(t, "mine", stack.SystemNamespace, "phasegpu-webhook")

	s.wants(t, "no token that there is", "nonsense", q, refit.Unauthenticated)
	parts := strings.Split(token, ".")
	s.wants(t, "a forged signature", parts[0]+"."+parts[1]+"."+strings.Repeat("A", len(parts[2])), q,
		refit.Unauthenticated)
	s.wants(t, "for the API server", s.token(t, plugin, "https://kubernetes.default.svc"), q, refit.Unauthenticated)
	s.wants(t, "for somebody else", s.token(t, plugin, "vault"), q, refit.Unauthenticated)
	s.wants(t, "another service account", s.token(t, stranger, refit.Audience), q, refit.NotDevicePlugin)
	s.wants(t, "bound to no pod", s.issue(t, stack.NodeNamespace, "phasegpu-device-plugin", refit.Audience, nil), q,
		refit.NotBound)
	s.wants(t, "bound to a node alone", s.issue(t, stack.NodeNamespace, "phasegpu-device-plugin", refit.Audience,
		&authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Node", Name: "mine",
		}), q, refit.NotBound)
	s.wants(t, "bound to another node", other, q, refit.OtherNode)
	elsewhere := question(pod, 0, "GPU-mine-1")
	elsewhere.Node = "other"
	s.wants(t, "about a pod of another node", other, elsewhere, refit.BoundElsewhere)
	now, err := s.Pod(ctx, pod)
	must(t, err)
	if diff := cmp.Diff(pod.Annotations, now.Annotations); diff != "" {
		t.Errorf("something was written: %s", diff)
	}

	// The API server remembers that it accepted the token; the pod is looked for all the same.
	s.wants(t, "the device plugin", token, q, "")
	must(t, s.Client.CoreV1().Pods(plugin.Namespace).Delete(ctx, plugin.Name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	s.wants(t, "its pod is gone", token, q, refit.CallerGone, refit.Unauthenticated)
	again := s.plugin(t, "mine")
	s.wants(t, "its pod was replaced", token, q, refit.CallerGone, refit.Unauthenticated)
	s.wants(t, "the new pod's token", s.token(t, again, refit.Audience), q, "")
	s.Sim.Resume("mine")
	must(t, s.Delete(ctx, pod))
}

// Pods that must not be moved.
func (s *site) states(t *testing.T) {
	ctx := t.Context()
	token := s.node(t, "states")
	pod := s.inGate(t, "states", stack.NewPod("default", "states", stack.Init("init", stack.GPU(1, 1000)),
		stack.App("app", stack.GPU(1, 1000))))
	s.Sim.Resume("states")
	must(t, s.Sim.AwaitRunning(ctx, pod, "init"))
	s.wants(t, "the container runs", token, question(pod, 0, "GPU-states-1"), refit.AlreadyStarted)
	s.wants(t, "kubelet has reported", token, question(pod, 1, "GPU-states-1"), refit.NotPending)
	must(t, s.Sim.Finish(ctx, pod, "init", 0))
	must(t, s.Sim.AwaitRunning(ctx, pod, "app"))
	s.wants(t, "the init has run", token, question(pod, 0, "GPU-states-1"), refit.AlreadyStarted)
	must(t, s.Delete(ctx, pod))
	s.wants(t, "the pod is gone", token, question(pod, 1, "GPU-states-1"), refit.PodGone)
	s.inGate(t, "states", stack.NewPod("default", "states", stack.Init("init", stack.GPU(1, 1000)),
		stack.App("app", stack.GPU(1, 1000))))
	s.wants(t, "another pod has its name", token, question(pod, 1, "GPU-states-1"), refit.PodReplaced)
	s.Sim.Resume("states")
}

// RBAC lets the service's account patch pods, and the policy only their records.
func (s *site) rights(t *testing.T) {
	ctx := t.Context()
	s.node(t, "rights")
	pod := s.inGate(t, "rights", stack.NewPod("default", "rights", stack.App("app", stack.GPU(1, 1000))))
	config, err := s.ServiceAccount(ctx, stack.SystemNamespace, "phasegpu-numarefit")
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	plain, err := s.Create(ctx, stack.NewPod("default", "plain", stack.App("app")))
	must(t, err)
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		patch   string
		sub     []string
		allowed bool
	}{
		{"the record", pod, `{"metadata":{"annotations":{"` + record + `":"GPU-rights-1,NVIDIA,1000,0:;"}}}`, nil,
			true},
		{"no record any more", pod, `{"metadata":{"annotations":{"` + record + `":null}}}`, nil, false},
		{"a record where there is none", plain, `{"metadata":{"annotations":{"` + record + `":";"}}}`, nil, false},
		{"another family's record", pod, `{"metadata":{"annotations":{"hami.io/amd-devices-allocated":";"}}}`, nil,
			false},
		{"another record", pod, `{"metadata":{"annotations":{"hami.io/vgpu-node":"elsewhere"}}}`, nil, false},
		{"another annotation", pod, `{"metadata":{"annotations":{"hami.io/numa-alignment":"strict"}}}`, nil, false},
		{"a new annotation", pod, `{"metadata":{"annotations":{"a":"b"}}}`, nil, false},
		{"a label", pod, `{"metadata":{"labels":{"a":"b"}}}`, nil, false},
		{"a finalizer", pod, `{"metadata":{"finalizers":["a/b"]}}`, nil, false},
		{"an image", pod, `{"spec":{"containers":[{"name":"app","image":"evil.test/app"}]}}`, nil, false},
		{"the status", pod, `{"status":{"phase":"Failed"}}`, []string{"status"}, false},
	} {
		_, err := client.CoreV1().Pods("default").Patch(ctx, test.pod.Name, types.StrategicMergePatchType,
			[]byte(test.patch), metav1.PatchOptions{}, test.sub...)
		if test.allowed && err != nil || !test.allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if err := client.CoreV1().Pods("default").Delete(ctx, pod.Name,
		metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deletion: %v", err)
	}
	if _, err := client.CoreV1().Secrets(stack.SystemNamespace).List(ctx,
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("secrets: %v", err)
	}
	s.Sim.Resume("rights")
	must(t, s.Sim.AwaitRunning(ctx, pod, "app"))
	must(t, s.AwaitAudit(ctx))
}

// Slow clients are cut off, and old versions of TLS are refused.
func (s *site) clients(t *testing.T) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA())
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	must(t, stack.Together(
		func() error { return stack.OldTLS(t.Context(), s.refit.URL, config) },
		func() error { return stack.SlowClients(t.Context(), s.refit.URL, http.MethodPost, refit.Path, config) },
		func() error { return stack.SlowClients(t.Context(), s.refit.Health, http.MethodGet, "/metrics", nil) },
	))
}

// Package decide relies on this: a patch with an older resourceVersion or another pod's UID is a conflict.
func (s *site) preconditions(t *testing.T) {
	ctx := t.Context()
	pod, err := s.Create(ctx, stack.NewPod("default", "patched", stack.App("app")))
	must(t, err)
	for _, test := range []struct {
		name, uid, version string
		conflict           bool
	}{
		{"an older version", string(pod.UID), "1", true},
		{"another pod's", "someone-else", "1", true},
		{"as it is", string(pod.UID), pod.ResourceVersion, false},
	} {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q,"annotations":{"a":"b"}}}`, test.uid,
			test.version)
		_, err := s.Client.CoreV1().Pods("default").Patch(ctx, pod.Name, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{})
		if test.conflict && !apierrors.IsConflict(err) || !test.conflict && err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
