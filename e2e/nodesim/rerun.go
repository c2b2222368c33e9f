package nodesim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

const allContainersRestarting corev1.PodConditionType = "AllContainersRestarting"

// The order of reports in this file is that of a 1.37 kubelet.

// recreateSandbox is a sandbox that was stopped: all containers end, and a new one takes its place. The
// init containers keep their old records until their turn comes.
func (l *life) recreateSandbox() {
	l.script = append(l.script, func(l *life, now time.Time) {
		l.endAll(exitSIGKILL, now)
		l.setCondition(corev1.PodReadyToStartContainers, false, now)
	}, newSandbox)
}

// killPause is a sandbox whose pause process was killed: kubelet makes a new one before it shows that the
// containers have ended.
func (l *life) killPause() {
	l.script = append(l.script, func(l *life, now time.Time) {
		l.setCondition(corev1.PodReadyToStartContainers, false, now)
	}, newSandbox, func(l *life, now time.Time) {
		l.endAll(exitSIGKILL, now)
	})
}

// newSandbox is ready in a later second than anything that was reported: on a real node there are seconds
// between the two, and times without fractions would otherwise make old records look new.
func newSandbox(l *life, now time.Time) {
	l.cycle++
	l.latest = l.latest.Add(time.Second)
	l.setCondition(corev1.PodReadyToStartContainers, true, now)
}

// restartAll is a restart of all containers in place: the sandbox stays, and no record of an earlier run
// does.
func (l *life) restartAll() {
	l.script = append(l.script, func(l *life, now time.Time) {
		l.setCondition(allContainersRestarting, true, now)
	}, func(l *life, now time.Time) {
		l.endAll(exitSIGKILL, now)
		l.cycle++
		for _, c := range l.containers {
			if c.state.Terminated != nil {
				c.last = c.state
			}
			if c.runs > 0 && !c.counted {
				c.counted = true
				c.restart++
			}
			c.state = waiting("RestartingAllContainers")
			c.until = time.Time{}
		}
	}, func(l *life, now time.Time) {
		l.setCondition(allContainersRestarting, false, now)
	})
}
