package preempt_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// scene is a random node with pods on it.
type scene struct {
	*desk
	cards int
	holds map[string]func(*desk) // by UID: books again what the pod holds
	given []string
}

func randomScene(r *rand.Rand) *scene {
	s := &scene{desk: newDesk(), cards: 1 + r.Intn(3), holds: map[string]func(*desk){}}
	s.node("n", s.cards)
	for i := range 1 + r.Intn(7) {
		uid, card := string(rune('a'+i)), fmt.Sprintf("n-%d", r.Intn(s.cards))
		init, app := int64(r.Intn(3))*4000, int64(1+r.Intn(4))*4000
		s.holds[uid] = func(d *desk) { d.hold(uid, "n", card, init, app) }
		s.holds[uid](s.desk)
		pod := s.pod("n", uid, []int32{-5, 0, 10, 10, 1000, 2000}[r.Intn(6)], r.Intn(3), []string{"", "web", "db"}[r.Intn(3)])
		if r.Intn(6) == 0 {
			pod.DeletionTimestamp = &noMore
		}
	}
	for i := range r.Intn(3) { // pods that hold nothing of ours
		uid := fmt.Sprint("cpu", i)
		s.pod("n", uid, int32(r.Intn(20)), r.Intn(3), []string{"", "web"}[r.Intn(2)])
		if r.Intn(2) == 0 {
			s.given = append(s.given, uid)
		}
	}
	for _, app := range []string{"web", "db"} {
		if r.Intn(2) == 0 {
			s.budget(app, int32(r.Intn(3)))
		}
	}
	if p := s.pods["n"][0]; r.Intn(4) == 0 && *p.Spec.Priority < 1000 {
		s.given = append(s.given, string(p.UID)) // for its slot
	}
	return s
}

// fits tries the pod in books of which these pods were never told.
func (s *scene) fits(t *testing.T, pod *corev1.Pod, gone []string) bool {
	d := newDesk()
	d.node("n", s.cards)
	for uid, hold := range s.holds {
		if !slices.Contains(gone, uid) {
			hold(d)
		}
	}
	p, err := podrequest.Read(pod, podrequest.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	_, refusal := p.Place(&placement.Scratch{}, d.book.Node("n"))
	return refusal.Reason == ""
}

// violations counts, of the pods that go, those for which a budget has nothing left when every pod of lower priority
// goes, one after the other.
func (s *scene) violations(gone []string) int {
	var line []*corev1.Pod
	for i := range s.pods["n"] {
		if p := &s.pods["n"][i]; *p.Spec.Priority < 1000 {
			line = append(line, p)
		}
	}
	slices.SortStableFunc(line, func(a, b *corev1.Pod) int {
		if *a.Spec.Priority != *b.Spec.Priority {
			return int(*b.Spec.Priority) - int(*a.Spec.Priority)
		}
		if !a.Status.StartTime.Equal(b.Status.StartTime) {
			return a.Status.StartTime.Compare(b.Status.StartTime.Time)
		}
		return strings.Compare(string(a.UID), string(b.UID))
	})
	left, count := map[string]int32{}, 0
	for _, b := range s.budgets {
		left[b.Name] = b.Status.DisruptionsAllowed
	}
	for _, p := range line {
		room, limited := left[p.Labels["app"]]
		if !limited {
			continue
		}
		left[p.Labels["app"]]--
		if room <= 0 && slices.Contains(gone, string(p.UID)) {
			count++
		}
	}
	return count
}

// Whatever is on a node, the answer is right by a recomputation that knows nothing of how it was found.
func TestAnswersAreRight(t *testing.T) {
	var outcomes [5]int
	for seed := range int64(3000) {
		r := rand.New(rand.NewSource(seed))
		s := randomScene(r)
		pod := gpu("p", int64(r.Intn(3))*8000, int64(1+r.Intn(5))*4000)
		var lower, ending []string
		for _, p := range s.pods["n"] {
			if _, ours := s.holds[string(p.UID)]; !ours || *p.Spec.Priority >= 1000 || slices.Contains(s.given, string(p.UID)) {
				continue
			}
			if p.DeletionTimestamp != nil {
				ending = append(ending, string(p.UID))
			}
			lower = append(lower, string(p.UID))
		}
		fits := func(gone ...[]string) bool { return s.fits(t, pod, slices.Concat(gone...)) }
		text, answered := s.ask(t, pod, map[string][]string{"n": s.given})["n"]
		names, violations, _ := strings.Cut(text, ", ")
		victims := strings.Fields(names)
		var picked []string
		for _, uid := range victims {
			if !slices.Contains(s.given, uid) {
				picked = append(picked, uid)
			}
		}
		wrong := func(why string) {
			t.Helper()
			t.Fatalf("seed %d: answered %q to %v with lower %v, of which %v are ending: %s", seed, text, s.given, lower, ending, why)
		}
		for _, uid := range s.given {
			if answered && !slices.Contains(victims, uid) {
				wrong("a given victim is missing")
			}
		}
		for _, uid := range picked {
			if !slices.Contains(lower, uid) {
				wrong("who is not of lower priority, or holds nothing, is evicted")
			}
		}
		outcome := 0
		switch {
		case fits(s.given):
			if len(picked) > 0 || answered != (len(s.given) > 0) {
				wrong("the given are enough")
			}
			continue // with kube-scheduler's own number
		case fits(s.given, ending):
			outcome = 1
			for _, uid := range picked {
				if !slices.Contains(ending, uid) {
					wrong("who is ending is enough")
				}
				if fits(s.given, slices.DeleteFunc(slices.Clone(picked), func(o string) bool { return o == uid })) {
					wrong("it fits without the end of " + uid)
				}
			}
			if !fits(s.given, picked) {
				wrong("it does not fit then")
			}
		case fits(s.given, lower):
			outcome = 2 + min(len(picked), 2) - 1
			if !answered || !fits(s.given, ending, picked) {
				wrong("it does not fit then")
			}
			for _, uid := range picked {
				if slices.Contains(ending, uid) {
					wrong("who is ending is evicted")
				}
				if fits(s.given, ending, slices.DeleteFunc(slices.Clone(picked), func(o string) bool { return o == uid })) {
					wrong("it fits without the end of " + uid)
				}
			}
		default:
			outcome = 4
			if answered {
				wrong("nobody's end helps")
			}
			continue
		}
		outcomes[outcome]++
		if want := s.violations(victims); violations != map[bool]string{true: fmt.Sprintf("%d violations", want)}[want > 0] {
			wrong(fmt.Sprintf("%d budgets are violated", want))
		}
	}
	for i, n := range outcomes[1:4] {
		if n < 20 {
			t.Errorf("outcome %d was tried %d times only", i+1, n)
		}
	}
	t.Log(outcomes)
}
