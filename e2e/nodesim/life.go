package nodesim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// life is a pod's life on a node. It knows no clock and no API server: step makes the next change that is
// due, and status says how kubelet would report what there is.
type life struct {
	pod  *corev1.Pod // spec and annotations; never changed
	plan plan

	begun      metav1.Time
	rejected   *rejection
	containers []*container // by position
	conditions map[corev1.PodConditionType]corev1.PodCondition
	cycle      int                      // of init containers; a new one begins with each sandbox
	script     []func(*life, time.Time) // changes that come before all others
	latest     time.Time                // the last time that was put into a status

	terminating bool // the pod is being deleted
	final       bool // containers of a deleted pod have ended
}

// container is one container's life.
type container struct {
	name    string
	class   phase.Class
	policy  corev1.ContainerRestartPolicy
	state   corev1.ContainerState
	last    corev1.ContainerState
	cycle   int // in which it was started last; 0 for never
	runs    int
	counted bool // its next start is in restarts already
	restart int32
	until   time.Time // when this run, or this back-off, ends; zero for never
	exit    int32     // how this run ends then
}

func newLife(pod *corev1.Pod, plan plan, now time.Time) *life {
	l := &life{pod: pod, plan: plan, cycle: 1, conditions: map[corev1.PodConditionType]corev1.PodCondition{}}
	l.begun = l.stamp(now)
	reason := "ContainerCreating"
	if len(pod.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	for position, class := range kube.Classes(&pod.Spec) {
		c := kube.Container(&pod.Spec, position)
		l.containers = append(l.containers, &container{
			name: c.Name, class: class, policy: restartPolicy(&pod.Spec, c, class),
			state: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		})
	}
	l.setCondition(corev1.PodReadyToStartContainers, false, now)
	return l
}

// restartPolicy is the one that rules a container: its own, else the pod's, which for init containers
// restarts no successful run.
func restartPolicy(spec *corev1.PodSpec, c *corev1.Container, class phase.Class) corev1.ContainerRestartPolicy {
	policy := corev1.ContainerRestartPolicy(spec.RestartPolicy)
	if c.RestartPolicy != nil {
		policy = *c.RestartPolicy
	}
	if class == phase.Init && policy == corev1.ContainerRestartPolicyAlways {
		policy = corev1.ContainerRestartPolicyOnFailure
	}
	return policy
}

// stamp is a time as kubelet writes it: whole seconds, never earlier than what it wrote before.
func (l *life) stamp(now time.Time) metav1.Time {
	if t := now.Truncate(time.Second); t.After(l.latest) {
		l.latest = t
	}
	return metav1.NewTime(l.latest)
}

// step makes one change that is due and reports whether there was one.
func (l *life) step(now time.Time) bool {
	if l.over() {
		return false
	}
	if len(l.script) > 0 {
		l.script[0](l, now)
		l.script = l.script[1:]
		return true
	}
	for _, c := range l.containers {
		if c.state.Running != nil && c.due(now) {
			l.end(c, c.exit, now)
			return true
		}
	}
	if l.terminating {
		l.endAll(exitSIGTERM, now)
		l.setCondition(corev1.PodReadyToStartContainers, false, now)
		l.final = true
		return true
	}
	if !l.holds(corev1.PodReadyToStartContainers) {
		l.setCondition(corev1.PodReadyToStartContainers, true, now)
		return true
	}
	if l.doomed() {
		return l.endAll(exitSIGTERM, now)
	}
	changed, blocked := l.stepInits(now)
	return changed || !blocked && l.stepApps(now)
}

// stepInits changes init containers and sidecars; blocked tells that apps have to wait for them.
func (l *life) stepInits(now time.Time) (changed, blocked bool) {
	for _, c := range l.containers {
		if c.class == phase.App {
			break
		}
		started := c.cycle == l.cycle
		if started && (c.succeeded() || c.class == phase.Sidecar && c.state.Running != nil) {
			continue
		}
		if l.advance(c, now) {
			return true, true
		}
		if c.class == phase.Init || !started {
			return false, true
		}
	}
	return false, false
}

// stepApps starts apps, together, and restarts them; when they are done it ends the sidecars.
func (l *life) stepApps(now time.Time) bool {
	changed, done := false, true
	for _, c := range l.containers {
		if c.class == phase.App {
			changed = l.advance(c, now) || changed
			done = done && c.state.Terminated != nil && !c.restarts()
		}
	}
	if changed || !done {
		return changed
	}
	return l.endAll(exitSIGTERM, now)
}

// doomed reports whether an init container has failed for good.
func (l *life) doomed() bool {
	return slices.ContainsFunc(l.containers, func(c *container) bool {
		return c.class == phase.Init && c.cycle == l.cycle && c.state.Terminated != nil && !c.succeeded() &&
			!c.restarts()
	})
}

// advance starts a container that has not run in this cycle, and takes one that has ended through its
// back-off, as its restart policy says.
func (l *life) advance(c *container, now time.Time) bool {
	switch {
	case c.cycle != l.cycle:
		l.start(c, now)
	case c.state.Terminated != nil && c.restarts():
		c.last = c.state
		c.state = waiting("CrashLoopBackOff")
		c.until = now.Add(restartDelay)
	case c.state.Waiting != nil && c.due(now):
		l.start(c, now)
	default:
		return false
	}
	return true
}

func (l *life) start(c *container, now time.Time) {
	if c.state.Terminated != nil {
		c.last = c.state
	}
	if c.runs > 0 && !c.counted {
		c.restart++
	}
	c.counted = false
	r := l.plan.run(c.name, c.runs)
	c.runs++
	c.cycle = l.cycle
	c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: l.stamp(now)}}
	c.until, c.exit = time.Time{}, r.exit
	if !r.hold {
		c.until = now.Add(r.after)
	}
}

// Exit codes of programs that a signal ends.
const (
	exitSIGKILL = 128 + 9
	exitSIGTERM = 128 + 15
)

func (l *life) end(c *container, exit int32, now time.Time) {
	reason := "Completed"
	if exit != 0 {
		reason = "Error"
	}
	c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: exit, Reason: reason, StartedAt: c.state.Running.StartedAt, FinishedAt: l.stamp(now),
	}}
	c.until = time.Time{}
}

// endAll ends what runs, and reports whether anything did.
func (l *life) endAll(exit int32, now time.Time) bool {
	ended := false
	for _, c := range l.containers {
		if c.state.Running != nil {
			l.end(c, exit, now)
			ended = true
		}
	}
	return ended
}

// due returns when the next change comes by itself; zero for never.
func (l *life) due() time.Time {
	var next time.Time
	for _, c := range l.containers {
		if !c.until.IsZero() && (next.IsZero() || c.until.Before(next)) {
			next = c.until
		}
	}
	return next
}

// over reports whether nothing will happen any more.
func (l *life) over() bool { return l.rejected != nil || ended(l.phase()) }

func (l *life) running() bool {
	return slices.ContainsFunc(l.containers, func(c *container) bool { return c.state.Running != nil })
}

func (l *life) container(name string) *container {
	for _, c := range l.containers {
		if c.name == name {
			return c
		}
	}
	return nil
}

func (c *container) due(now time.Time) bool { return !c.until.IsZero() && !now.Before(c.until) }

func (c *container) succeeded() bool {
	return c.state.Terminated != nil && c.state.Terminated.ExitCode == 0 && c.class != phase.Sidecar
}

// restarts reports whether a container that has ended is to run again.
func (c *container) restarts() bool {
	switch c.policy {
	case corev1.ContainerRestartPolicyAlways:
		return true
	case corev1.ContainerRestartPolicyOnFailure:
		return c.state.Terminated.ExitCode != 0
	default:
		return false
	}
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}
