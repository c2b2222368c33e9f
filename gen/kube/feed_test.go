package kube_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/await"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// log has what its observer was called with, in order.
type log struct {
	kube.NoObserver
	mu       sync.Mutex
	pods     []string
	problems []string
}

func (l *log) ObservePod(old, new *corev1.Pod, _ *ledger.Entry, d ledger.Delta) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := fmt.Sprintf("%s→%s", uid(old), uid(new))
	if d.Raised {
		line += " raised"
	}
	if d.Released {
		line += " released"
	}
	l.pods = append(l.pods, line)
}

func (l *log) ObserveProblem(kind, object string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problems = append(l.problems, fmt.Sprintf("%s %s: %v", kind, object, err))
}

func (l *log) copy(lines *[]string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(*lines)
}

// feed runs a feed for the length of a test.
func feed(t *testing.T, client kubernetes.Interface) (*kube.Feed, *ledger.Book, *log) {
	t.Helper()
	book, observed := ledger.New(), &log{}
	f := kube.NewFeed(client, book, kube.FeedOptions{Release: phase.PerInit, Observer: observed})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	await.Until(t, "the feed to be synced", f.Synced)
	return f, book, observed
}

func uid(p *corev1.Pod) types.UID {
	if p == nil {
		return ""
	}
	return p.UID
}

// gpu returns a pod with an init container of 20000 MiB and an app of 5000 on one card.
func gpu(name string, id types.UID) *corev1.Pod {
	p := bound(name, containers{container("i", "nvidia.com/gpumem", "20000")}, containers{container("a", "nvidia.com/gpumem", "5000")},
		nvidiaRecord, "G,NVIDIA,20000,0:;G,NVIDIA,5000,0:;")
	p.UID = id
	return p
}

func held(b *ledger.Book) int64 {
	v := b.Node("node-1")
	if v == nil || len(v.Held) == 0 {
		return -1
	}
	return v.Held[0].MemoryMiB
}

// TestFeed plays a day of one node.
func TestFeed(t *testing.T) {
	server, client := newAPIServer(t)
	server.put(node(nvidiaList, card("G")))
	server.put(quota("q", "limits.nvidia.com/gpumem", "30000"))
	server.put(gpu("p", "u1"))
	server.put(bound("plain", nil, containers{container("a", "cpu", "1")}))
	f, book, told := feed(t, client)
	if got := held(book); got != 20000 {
		t.Fatalf("once synced %d MiB are held, want 20000", got)
	}
	if server.pods != "spec.nodeName!=" {
		t.Errorf("pods are watched by field selector %q, want spec.nodeName!=", server.pods)
	}

	done := gpu("p", "u1")
	done.Status.InitContainerStatuses = statuses{terminated("i", 0, 1, 2)}
	server.put(done)
	await.Until(t, "the init container's memory to be released", func() bool { return held(book) == 5000 })
	server.put(done) // changes nothing in the books
	await.Until(t, "the sixth change after version 100 to be seen", func() bool { return f.Seen() == 106 })

	server.disconnect(func() { // while nobody looks, another pod takes the name
		server.remove(done)
		server.put(gpu("p", "u2"))
	})
	await.Until(t, "the new pod of the same name", func() bool { return held(book) == 20000 && book.Pod("u1") == nil })

	server.disconnect(func() { server.remove(gpu("p", "u2")) })
	await.Until(t, "a pod whose end was missed", func() bool { return held(book) == 0 && book.Pod("u2") == nil })

	want := []string{"→u1 raised", "u1→u1 released", "u1→u1", "u1→ released", "→u2 raised", "u2→ released"}
	if diff := cmp.Diff(want, told.copy(&told.pods)); diff != "" {
		t.Errorf("ObservePod (-want +got):\n%s", diff)
	}

	over := map[string]ledger.Charge{"NVIDIA": {MemoryMiB: 30001}}
	if book.CheckQuota("team", "", ledger.Scope{}, over) == nil {
		t.Error("the quota of 30000 lets 30001 pass")
	}
	server.put(quota("q", "limits.nvidia.com/gpumem", "30001"))
	await.Until(t, "the larger quota", func() bool { return book.CheckQuota("team", "", ledger.Scope{}, over) == nil })
	server.put(quota("q", "limits.nvidia.com/gpumem", "0"))
	await.Until(t, "the quota of 0", func() bool { return book.CheckQuota("team", "", ledger.Scope{}, over) != nil })
	server.remove(quota("q"))
	await.Until(t, "no quota", func() bool { return book.CheckQuota("team", "", ledger.Scope{}, over) == nil })
	server.remove(node())
	await.Until(t, "no node", func() bool { return book.Node("node-1") == nil })
	if problems := told.copy(&told.problems); len(problems) != 0 {
		t.Errorf("problems: %v", problems)
	}
	if s := book.Stats(); s != (ledger.Stats{}) {
		t.Errorf("the book counts %+v, want nothing", s)
	}
}

// TestSeen: whoever waits until the feed has seen a change does not wait for the next one. A list tells of
// changes in no order, and an end is a change.
func TestSeen(t *testing.T) {
	server, client := newAPIServer(t)
	for i := range 20 {
		server.put(gpu(fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i))))
	}
	f, _, _ := feed(t, client)
	if f.Seen() != 120 {
		t.Errorf("the newest of 20 pods after version 100 has version 120, not %d", f.Seen())
	}
	server.remove(gpu("p3", "u3"))
	await.Until(t, "the end of a pod to be seen", func() bool { return f.Seen() == 121 })
}

// TestFeedProblems: each is told once, however often the object changes or is listed again, and once
// more when it is another problem.
func TestFeedProblems(t *testing.T) {
	server, client := newAPIServer(t)
	server.put(node(nvidiaList, "garbage"))
	server.put(quota("q", "limits.nvidia.com/gpumem", "16Gi"))
	bad := gpu("bad", "u1")
	bad.Annotations[nvidiaRecord] = "G0,abc,;"
	server.put(bad)
	foreign := bound("foreign", nil, containers{container("a", "nvidia.com/gpu", "1")})
	server.put(foreign)
	never := gpu("never", "u2")
	never.Annotations["phasegpu.io/release"] = "never"
	never.Status.InitContainerStatuses = statuses{terminated("i", 0, 1, 2)}
	server.put(never)
	ended := gpu("ended", "u3")
	ended.Annotations[nvidiaRecord], ended.Status.Phase = "G0,abc,;", corev1.PodSucceeded
	server.put(ended)
	_, book, told := feed(t, client)

	again := func() {
		bad.Status.Phase, never.Status.Phase = corev1.PodRunning, corev1.PodRunning
		now := at(1)
		bad.Status.StartTime = &now
		server.put(bad)
		server.put(never)
		server.put(node(nvidiaList, "garbage", "example.com/note", "x"))
		q := quota("q", "limits.nvidia.com/gpumem", "16Gi")
		q.Status.Used = list("limits.nvidia.com/gpumem", "0")
		server.put(q)
	}
	again()
	server.disconnect(again)
	bad.Annotations[nvidiaRecord] = "too short"
	server.put(bad)
	server.put(node(nvidiaList, card("G")))
	await.Until(t, "the last changes", func() bool {
		return held(book) == 20000 && strings.Contains(strings.Join(told.copy(&told.problems), "\n"), "too short")
	})

	got := told.copy(&told.problems)
	slices.Sort(got)
	want := []string{
		`Node node-1: annotation hami.io/node-nvidia-register`,
		`Pod team/bad: annotation hami.io/vgpu-devices-allocated`,
		`Pod team/bad: annotation hami.io/vgpu-devices-allocated`,
		`Pod team/foreign: asks for devices and is on node node-1 without a record of which`,
		`Pod team/never: annotation phasegpu.io/release: release policy "never" is unknown`,
		`ResourceQuota team/q: key limits.nvidia.com/gpumem blocks until it is mended`,
	}
	if len(got) != len(want) {
		t.Fatalf("%d problems, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("problem %d is\n%s, want\n%s…", i, got[i], want[i])
		}
	}
	if book.Pod("u1").Unreadable == "" {
		t.Error("the bad record does not keep its node shut")
	}
}

// TestRelist: what is listed from the API server itself rules over events that come late.
func TestRelist(t *testing.T) {
	server, client := newAPIServer(t)
	server.put(node(nvidiaList, card("G")))
	server.put(gpu("p", "u1"))
	server.put(gpu("q", "u2"))
	f, book, _ := feed(t, client)
	var pods []types.UID
	server.disconnect(func() { server.remove(gpu("q", "u2")) })
	changed, err := f.Relist(t.Context(), func(p *corev1.Pod, _ *ledger.Pod) { pods = append(pods, p.UID) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]types.UID{"u1"}, pods); diff != "" || len(changed) > 1 {
		t.Errorf("%d changes, listed: %s", len(changed), diff)
	}
	if held(book) != 20000 || book.Pod("u2") != nil {
		t.Errorf("%d MiB are held, want those of u1 alone", held(book))
	}
	server.put(gpu("r", "u3"))
	await.Until(t, "a pod that came after the list", func() bool { return held(book) == 40000 })
	if n := book.Stats().UnknownReleases; n != 0 {
		t.Errorf("the end of a pod that the list had ended already was counted as %d double releases", n)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Relist(ctx, func(*corev1.Pod, *ledger.Pod) { t.Error("told of a failed list") }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if held(book) != 40000 {
		t.Error("a failed list changed the books")
	}
}

// TestRelistInPages: a large cluster's pods are listed a page at a time and as they were at one moment; when the
// API server has forgotten that moment, the books stay as they are until another list.
func TestRelistInPages(t *testing.T) {
	const pods = 1234
	server, client := newAPIServer(t)
	server.put(node(nvidiaList, card("G")))
	f, book, _ := feed(t, client)
	server.deafen(true)
	for i := range pods {
		server.put(gpu(fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i))))
	}
	between := func(change func()) (told int, err error) {
		_, err = f.Relist(t.Context(), func(*corev1.Pod, *ledger.Pod) {
			if told++; told == 700 { // on the second page
				change()
			}
		})
		return told, err
	}
	if told, err := between(func() { server.expire() }); !apierrors.IsResourceExpired(err) || told == pods || len(book.Pods()) != 0 {
		t.Errorf("%d pods told of, %d in the books, error %v", told, len(book.Pods()), err)
	}
	told, err := between(func() { server.remove(gpu("p0", "u0")); server.remove(gpu("p1233", "u1233")) })
	if err != nil || told != pods || len(book.Pods()) != pods {
		t.Errorf("%d of %d pods told of, %d in the books, error %v", told, pods, len(book.Pods()), err)
	}
	if diff := cmp.Diff([]int{500, 500, 500, 500, 234}, server.pages); diff != "" {
		t.Errorf("pages: %s", diff)
	}
	await.Until(t, "what ended during the list to be found out", func() bool { return len(book.Pods()) == pods-2 })
}

// TestListedAndNeverShown: a pod that a list showed, and that ended while the watch was interrupted, has no
// event that would take it off the books.
func TestListedAndNeverShown(t *testing.T) {
	server, client := newAPIServer(t)
	server.put(node(nvidiaList, card("G")))
	f, book, told := feed(t, client)
	server.deafen(true)
	server.put(gpu("p", "u1"))
	server.put(gpu("q", "u2"))
	if _, err := f.Relist(t.Context(), func(*corev1.Pod, *ledger.Pod) {}); err != nil {
		t.Fatal(err)
	}
	if held(book) != 40000 {
		t.Fatalf("%d MiB are held after the list, want those of both", held(book))
	}
	server.disconnect(func() { server.remove(gpu("p", "u1")) })
	server.deafen(false)
	await.Until(t, "the end of the pod that is gone to be told", func() bool { return slices.Contains(told.copy(&told.pods), "u1→ released") })
	if held(book) != 20000 || book.Pod("u1") != nil {
		t.Errorf("%d MiB are held, want those of the other", held(book))
	}
}

// TestEventsWaitForTheList: whoever keeps something beside the books would keep a pod for good whose end it
// was told of before it was told of the list with the pod in it.
func TestEventsWaitForTheList(t *testing.T) {
	server, client := newAPIServer(t)
	server.put(gpu("p", "u1"))
	f, _, log := feed(t, client)
	_, other, _ := feed(t, client)
	_, err := f.Relist(t.Context(), func(pod *corev1.Pod, _ *ledger.Pod) {
		server.remove(gpu("p", "u1"))
		await.Until(t, "another feed to see the end", func() bool { return other.Pod("u1") == nil })
		for range 1000 { // this one could tell of it now
			goruntime.Gosched()
		}
		if got := log.copy(&log.pods); pod.UID != "u1" || slices.Contains(got, "u1→ released") {
			t.Errorf("pod %s listed, told already: %q", pod.UID, got)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the end to be told", func() bool { return slices.Contains(log.copy(&log.pods), "u1→ released") })
}

// TestFeedEqualsRecomputation: after random changes, seen and missed, the book is what a new one would
// be that were told the present state alone.
func TestFeedEqualsRecomputation(t *testing.T) {
	seed := rand.Int63()
	rng := rand.New(rand.NewSource(seed))
	server, client := newAPIServer(t)
	_, book, _ := feed(t, client)
	live := map[string]*corev1.Pod{}
	var nodes []*corev1.Node
	next := 0
	step := func() {
		name := fmt.Sprintf("p%d", rng.Intn(12))
		p := live[name]
		switch {
		case rng.Intn(10) == 0 && len(nodes) > 0:
			server.remove(nodes[0])
			nodes = nil
		case rng.Intn(10) == 0:
			nodes = []*corev1.Node{node(nvidiaList, card([]string{"G", "H"}[rng.Intn(2)]))}
			server.put(nodes[0])
		case p == nil:
			next++
			p = gpu(name, types.UID(fmt.Sprintf("u%d", next)))
			switch rng.Intn(4) {
			case 0:
				p = bound(name, nil, containers{container("a", "cpu", "1")})
				p.UID = types.UID(fmt.Sprintf("u%d", next))
			case 1:
				p.Annotations[nvidiaRecord] = "bad"
			}
			live[name] = p
			server.put(p)
		case rng.Intn(3) == 0:
			server.remove(p)
			delete(live, name)
		default:
			switch rng.Intn(4) {
			case 0:
				p.Status.Phase = corev1.PodSucceeded
			case 1:
				p.Status.InitContainerStatuses = statuses{terminated("i", 0, 1, 2)}
			case 2:
				p.Status.InitContainerStatuses = statuses{running("i", 3)}
			default:
				delete(p.Annotations, nvidiaRecord)
			}
			server.put(p)
		}
	}
	for round := range 20 {
		changes := func() {
			for range 50 {
				step()
			}
		}
		if round%10 == 5 {
			server.disconnect(changes)
		} else {
			changes()
		}
		want := ledger.New()
		for _, n := range nodes {
			want.SetNode(kube.Node(n))
		}
		for _, p := range live {
			if kube.Tracked(p) {
				want.Observe(kube.LedgerPod(p, phase.PerInit))
			}
		}
		await.Until(t, fmt.Sprintf("the books of seed %d, round %d, to be\n%s\nnot\n%s", seed, round, picture(want), picture(book)), func() bool { return picture(book) == picture(want) })
	}
	if n := book.Stats(); n.UnknownReleases != 0 || n.Broken != 0 {
		t.Errorf("seed %d: the book counts %+v", seed, n)
	}
}

// picture is what a book says, without what depends on the way it got there.
func picture(b *ledger.Book) string {
	var s strings.Builder
	for _, v := range b.Nodes() {
		fmt.Fprintf(&s, "node %s known %t devices %v held %v missing %v unreadable %v\n", v.Name, v.Known, v.Devices, v.Held, v.Missing, v.Unreadable != "")
	}
	for _, e := range b.Pods() {
		fmt.Fprintf(&s, "pod %s %s on %s reserves %v problem %q\n", e.Name, e.UID, e.Node, e.Reserved, e.Problem)
	}
	return s.String()
}

func TestConfig(t *testing.T) {
	given := &rest.Config{Host: "x", QPS: 5}
	got := kube.Config(given)
	if got.ContentType != runtime.ContentTypeProtobuf || !strings.HasPrefix(got.AcceptContentTypes, runtime.ContentTypeProtobuf+",") || got.Host != "x" {
		t.Errorf("got %+v", got)
	}
	if given.ContentType != "" {
		t.Error("the given configuration was changed")
	}
}
