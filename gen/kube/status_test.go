package kube_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/gen/kube"
)

// TestStatus: which init containers are complete, from statuses as kubelet writes them and as it never
// should.
func TestStatus(t *testing.T) {
	inits := containers{container("i0"), sidecar("s"), container("i1")}
	apps := containers{container("a")}
	done0, done1 := terminated("i0", 0, 1, 2), terminated("i1", 0, 3, 4)
	confused := running("a", 9)
	confused.State.Terminated = &corev1.ContainerStateTerminated{StartedAt: at(8), FinishedAt: at(9)}
	both := done0
	both.State.Running = &corev1.ContainerStateRunning{StartedAt: at(5)}
	last := corev1.ContainerStatus{Name: "i0", LastTerminationState: done0.State}
	sandbox := func(status corev1.ConditionStatus, at int) corev1.PodCondition {
		return condition("PodReadyToStartContainers", status, at)
	}
	noTimes := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	for _, test := range []struct {
		name       string
		inits      statuses
		apps       statuses
		conditions conditions
		want       int
	}{
		{name: "no status"},
		{name: "one done", inits: statuses{done0, running("s", 2)}, want: 1},
		{name: "by name, in another order", inits: statuses{done1, running("s", 2), done0}, want: 2},
		{name: "a status is missing", inits: statuses{done1}, want: 0},
		{name: "of a container that is not there", inits: statuses{terminated("x", 0, 1, 2), done0}, want: 1},
		{name: "the first of two of one name", inits: statuses{running("i0", 1), done0}, want: 0},
		{name: "in the list of the apps", apps: statuses{done0}, want: 0},
		{name: "an init named in the apps' list runs nothing", apps: statuses{running("i0", 1)}, want: 0},
		{name: "running and terminated at once", inits: statuses{both}, want: 0},
		{name: "an app that is both", apps: statuses{confused}, want: 0},
		{name: "lastState does not count", inits: statuses{last}, want: 0},
		{name: "made up without times", inits: statuses{{Name: "i0", State: noTimes}}, want: 0},
		{name: "the app runs", apps: statuses{running("a", 9)}, want: 2},
		{name: "no sandbox", apps: statuses{running("a", 9)},
			conditions: conditions{sandbox(corev1.ConditionFalse, 10)}, want: 0},
		{name: "a sandbox newer than the app", apps: statuses{running("a", 9)}, inits: statuses{done0},
			conditions: conditions{sandbox(corev1.ConditionTrue, 10)}, want: 0},
		{name: "the same at the second", apps: statuses{running("a", 10)},
			conditions: conditions{sandbox(corev1.ConditionTrue, 10)}, want: 2},
		{name: "an unknown sandbox is none", apps: statuses{running("a", 9)},
			conditions: conditions{sandbox(corev1.ConditionUnknown, 10)}, want: 2},
		{name: "two opinions on the sandbox", apps: statuses{running("a", 9)}, conditions: conditions{
			sandbox(corev1.ConditionFalse, 5), sandbox(corev1.ConditionTrue, 5)}, want: 0},
		{name: "all containers restarting", apps: statuses{running("a", 9)},
			conditions: conditions{condition("AllContainersRestarting", corev1.ConditionTrue, 10)}, want: 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := bound("p", inits, apps)
			pod.Status = corev1.PodStatus{
				Phase: corev1.PodRunning, InitContainerStatuses: test.inits, ContainerStatuses: test.apps,
				Conditions: test.conditions,
			}
			if got := kube.Classes(&pod.Spec).Progress(kube.Status(pod)).Inits; got != test.want {
				t.Errorf("%d inits complete, want %d", got, test.want)
			}
		})
	}
}
