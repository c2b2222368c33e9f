package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/phasegpu/phasegpu/gen/refit"
	"github.com/phasegpu/phasegpu/numarefit/internal/decide"
)

// question is a call of the refit service.
type question struct {
	*refit.Request
	number  int
	ctx     context.Context
	expire  context.CancelFunc // ends its time
	began   uint64             // version
	listed  uint64             // version at which it read the others, for its last decision
	gets    []uint64           // versions at which it read its pod, the last to learn what became of a write
	patches []*patch
	done    bool
	outcome decide.Outcome
}

// patch is a write of a question.
type patch struct {
	others  uint64 // version at which they were read
	version string // of the pod, which it needs
	value   string
	applied uint64 // version, 0 when it is not carried out
}

// ask starts a question.
func (sim *simulation) ask(r *refit.Request) *question {
	sim.asked++
	q := &question{Request: r, number: sim.asked, began: sim.server.version}
	q.ctx, q.expire = context.WithCancel(context.Background())
	sim.questions = append(sim.questions, q)
	sim.start(fmt.Sprintf("refit %d of %s/%s", q.number, r.Pod.Name, r.Container.Name), func(a *actor) {
		d := decide.Decider{Store: &store{a, q}, Settle: time.Hour}
		q.outcome, q.done = d.Refit(q.ctx, r), true
		if q.outcome.Refusal != nil {
			a.say("refused: %v", q.outcome.Refusal)
		} else {
			a.say("answers %v, moved %t", q.outcome.Answer.Devices, q.outcome.Answer.Moved)
		}
		if !a.over {
			sim.answered(q)
		}
	})
	return q
}

// store is the API server as one question sees it.
type store struct {
	a *actor
	q *question
}

func (s *store) Pod(ctx context.Context, _, name string) (pod *corev1.Pod, err error) {
	sim := s.a.sim
	err = s.a.read(ctx, "get pod", func() error {
		s.q.gets = append(s.q.gets, sim.server.version)
		if pod = sim.server.now(name).pod; pod == nil {
			return apierrors.NewNotFound(pods, name)
		}
		return nil
	})
	return pod, err
}

func (s *store) Node(ctx context.Context, name string) (node *corev1.Node, err error) {
	err = s.a.read(ctx, "get node", func() error { node = hardware[name]; return nil })
	return node, err
}

func (s *store) PodsOn(ctx context.Context, node string) (all []corev1.Pod, err error) {
	sim := s.a.sim
	err = s.a.read(ctx, "list pods", func() error {
		s.q.listed = sim.server.version
		for _, o := range sim.server.on(node, sim.server.version) {
			all = append(all, *o.pod)
		}
		return nil
	})
	return all, err
}

// Annotate carries out a patch with preconditions.
func (s *store) Annotate(ctx context.Context, pod *corev1.Pod, key, value string) error {
	sim, q := s.a.sim, s.q
	p := &patch{others: q.listed, version: pod.ResourceVersion, value: value}
	q.patches = append(q.patches, p)
	return s.a.write(ctx, "patch to "+value, func() error {
		o := sim.server.now(pod.Name)
		switch {
		case o.pod == nil:
			return apierrors.NewNotFound(pods, pod.Name)
		case o.pod.UID != pod.UID || o.pod.ResourceVersion != p.version && !sim.flaws.noPrecondition:
			return apierrors.NewConflict(pods, pod.Name, errors.New("the object has been modified"))
		}
		sim.refitted(q, p, o, sim.server.store(pod.Name, annotated(o.pod, key, value), o.life))
		return nil
	})
}
