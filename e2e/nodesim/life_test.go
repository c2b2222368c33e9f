package nodesim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// PodOf makes a pod from names of containers: "i…" init, "s…" sidecar, others apps.
func PodOf(policy corev1.RestartPolicy, names ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u"}}
	pod.Spec.RestartPolicy = policy
	for _, name := range names {
		c := corev1.Container{Name: name, Image: "example.test/image"}
		switch name[0] {
		case 's':
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
			fallthrough
		case 'i':
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

// brief tells a report in a line: phase, whether the sandbox is ready, and each container's state (W waiting,
// R running, T with exit code) with its restarts if any. Times are seconds after noon.
func brief(s corev1.PodStatus) string {
	words := []string{string(s.Phase)}
	for _, c := range s.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse {
			words = append(words, "no-sandbox")
		}
		if c.Type == allContainersRestarting && c.Status == corev1.ConditionTrue {
			words = append(words, "restarting")
		}
	}
	after := func(t metav1.Time) int { return int(t.Sub(noon).Seconds()) }
	for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
		word := c.Name + ":W"
		if r := c.State.Running; r != nil {
			word = fmt.Sprintf("%s:R(%d)", c.Name, after(r.StartedAt))
		}
		if t := c.State.Terminated; t != nil {
			word = fmt.Sprintf("%s:T%d(%d-%d)", c.Name, t.ExitCode, after(t.StartedAt), after(t.FinishedAt))
		}
		if c.RestartCount > 0 {
			word += fmt.Sprintf("rc%d", c.RestartCount)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// TestLife plays lives of pods: what is done to them, and the reports that follow.
func TestLife(t *testing.T) {
	finish := func(name string, exit int32) func(*life, time.Time) {
		return func(l *life, now time.Time) { l.end(l.container(name), exit, now) }
	}
	type act struct {
		at   int // seconds after noon
		do   func(*life, time.Time)
		want []string
	}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		plan string
		acts []act
	}{
		{"init, sidecar, init and app", PodOf(corev1.RestartPolicyAlways, "i0", "s", "i1", "a"), "", []act{
			{0, nil, []string{
				"Pending no-sandbox i0:W s:W i1:W a:W",
				"Pending i0:W s:W i1:W a:W",
				"Pending i0:R(0) s:W i1:W a:W",
			}},
			{5, finish("i0", 0), []string{
				"Pending i0:T0(0-5) s:W i1:W a:W",
				"Pending i0:T0(0-5) s:R(5) i1:W a:W",
				"Pending i0:T0(0-5) s:R(5) i1:R(5) a:W",
			}},
			{9, finish("i1", 0), []string{
				"Pending i0:T0(0-5) s:R(5) i1:T0(5-9) a:W",
				"Running i0:T0(0-5) s:R(5) i1:T0(5-9) a:R(9)",
			}},
			{11, finish("s", 0), []string{
				"Running i0:T0(0-5) s:T0(5-11) i1:T0(5-9) a:R(9)",
				"Running i0:T0(0-5) s:W i1:T0(5-9) a:R(9)",
			}},
			{12, nil, []string{"Running i0:T0(0-5) s:R(12)rc1 i1:T0(5-9) a:R(9)"}},
			{13, finish("a", 1), []string{
				"Running i0:T0(0-5) s:R(12)rc1 i1:T0(5-9) a:T1(9-13)",
				"Running i0:T0(0-5) s:R(12)rc1 i1:T0(5-9) a:W",
			}},
			{14, nil, []string{"Running i0:T0(0-5) s:R(12)rc1 i1:T0(5-9) a:R(14)rc1"}},
		}},
		{"a plan to the end: sidecars end after the apps", PodOf(corev1.RestartPolicyOnFailure, "s", "i", "a", "b"),
			"i=0;a=0;b=0@3s", []act{
				{0, nil, []string{
					"Pending no-sandbox s:W i:W a:W b:W",
					"Pending s:W i:W a:W b:W",
					"Pending s:R(0) i:W a:W b:W",
					"Pending s:R(0) i:R(0) a:W b:W",
					"Pending s:R(0) i:T0(0-0) a:W b:W",
					"Running s:R(0) i:T0(0-0) a:R(0) b:R(0)",
					"Running s:R(0) i:T0(0-0) a:T0(0-0) b:R(0)",
				}},
				{3, nil, []string{
					"Running s:R(0) i:T0(0-0) a:T0(0-0) b:T0(0-3)",
					"Succeeded s:T143(0-3) i:T0(0-0) a:T0(0-0) b:T0(0-3)",
				}},
			}},
		{"a failing init under Never ends the pod", PodOf(corev1.RestartPolicyNever, "s", "i", "a"), "", []act{
			{0, nil, []string{
				"Pending no-sandbox s:W i:W a:W", "Pending s:W i:W a:W", "Pending s:R(0) i:W a:W",
				"Pending s:R(0) i:R(0) a:W",
			}},
			{2, finish("i", 7), []string{
				"Pending s:R(0) i:T7(0-2) a:W",
				"Failed s:T143(0-2) i:T7(0-2) a:W",
			}},
		}},
		{"a failing init under OnFailure runs again", PodOf(corev1.RestartPolicyOnFailure, "i", "a"), "i=1,0;a=0",
			[]act{
				{0, nil, []string{
					"Pending no-sandbox i:W a:W", "Pending i:W a:W", "Pending i:R(0) a:W", "Pending i:T1(0-0) a:W",
					"Pending i:W a:W",
				}},
				{1, nil, []string{
					"Pending i:R(1)rc1 a:W", "Pending i:T0(1-1)rc1 a:W", "Running i:T0(1-1)rc1 a:R(1)",
					"Succeeded i:T0(1-1)rc1 a:T0(1-1)",
				}},
			}},
		{"apps that fail under Never", PodOf(corev1.RestartPolicyNever, "a", "b"), "a=0;b=3", []act{
			{0, nil, []string{
				"Pending no-sandbox a:W b:W", "Pending a:W b:W", "Running a:R(0) b:R(0)", "Running a:T0(0-0) b:R(0)",
				"Failed a:T0(0-0) b:T3(0-0)",
			}},
		}},
		// In the reports of a real kubelet.
		{"sandbox recreated", PodOf(corev1.RestartPolicyAlways, "i0", "s", "i1", "a"), "i0=0@4s;i1=0@4s", []act{
			{10, (*life).untilSteady, []string{"Running i0:T0(0-4) s:R(4) i1:T0(4-8) a:R(8)"}},
			{20, func(l *life, _ time.Time) { l.recreateSandbox() }, []string{
				"Running i0:T0(0-4) s:R(4) i1:T0(4-8) a:R(8)", // not yet
				"Running no-sandbox i0:T0(0-4) s:T137(4-20) i1:T0(4-8) a:T137(8-20)",
				"Running i0:T0(0-4) s:T137(4-20) i1:T0(4-8) a:T137(8-20)",
				"Pending i0:R(21)rc1 s:T137(4-20) i1:T0(4-8) a:T137(8-20)",
			}},
			{24, nil, []string{
				"Running i0:T0(21-24)rc1 s:T137(4-20) i1:T0(4-8) a:T137(8-20)",
				"Running i0:T0(21-24)rc1 s:R(24)rc1 i1:T0(4-8) a:T137(8-20)",
				"Pending i0:T0(21-24)rc1 s:R(24)rc1 i1:R(24)rc1 a:T137(8-20)",
			}},
			{28, nil, []string{
				"Running i0:T0(21-24)rc1 s:R(24)rc1 i1:T0(24-28)rc1 a:T137(8-20)",
				"Running i0:T0(21-24)rc1 s:R(24)rc1 i1:T0(24-28)rc1 a:R(28)rc1",
			}},
		}},
		{"pause killed", PodOf(corev1.RestartPolicyAlways, "i", "a"), "i=0@4s", []act{
			{10, (*life).untilSteady, []string{"Running i:T0(0-4) a:R(4)"}},
			{20, func(l *life, _ time.Time) { l.killPause() }, []string{
				"Running i:T0(0-4) a:R(4)",
				"Running no-sandbox i:T0(0-4) a:R(4)",
				"Running i:T0(0-4) a:R(4)",
				"Running i:T0(0-4) a:T137(4-21)",
				"Pending i:R(21)rc1 a:T137(4-21)",
			}},
		}},
		{"all containers restarted in place", PodOf(corev1.RestartPolicyAlways, "i", "a"), "i=0@4s", []act{
			{10, (*life).untilSteady, []string{"Running i:T0(0-4) a:R(4)"}},
			{20, func(l *life, _ time.Time) { l.restartAll() }, []string{
				"Running i:T0(0-4) a:R(4)",
				"Running restarting i:T0(0-4) a:R(4)",
				"Running restarting i:Wrc1 a:Wrc1",
				"Running i:Wrc1 a:Wrc1",
				"Pending i:R(20)rc1 a:Wrc1",
			}},
			{24, nil, []string{"Running i:T0(20-24)rc1 a:Wrc1", "Running i:T0(20-24)rc1 a:R(24)rc1"}},
		}},
		{"deleted while it runs", PodOf(corev1.RestartPolicyAlways, "i", "a"), "i=0", []act{
			{0, (*life).untilSteady, []string{"Running i:T0(0-0) a:R(0)"}},
			{3, deletion, []string{"Running i:T0(0-0) a:R(0)", "Failed no-sandbox i:T0(0-0) a:T143(0-3)"}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := parsePlan(c.plan)
			if err != nil {
				t.Fatal(err)
			}
			l := newLife(c.pod, plan, noon)
			report := func(at int) string { return brief(l.status(noon.Add(time.Duration(at) * time.Second))) }
			for i, a := range c.acts {
				now := noon.Add(time.Duration(a.at) * time.Second)
				var got []string
				if i == 0 && a.do == nil {
					got = append(got, report(a.at))
				}
				if a.do != nil {
					a.do(l, now)
					got = append(got, report(a.at))
				}
				for l.step(now) {
					got = append(got, report(a.at))
				}
				if diff := cmp.Diff(a.want, got); diff != "" {
					t.Fatalf("at %d s (-want +got):\n%s", a.at, diff)
				}
			}
		})
	}
}

// untilSteady lives from noon until nothing more is due.
func (l *life) untilSteady(until time.Time) {
	for now := noon; !now.After(until); now = now.Add(time.Second) {
		for l.step(now) {
		}
	}
}

func deletion(l *life, _ time.Time) { l.terminating = true }

// TestDue: the worker's timer must cover whatever step would do later.
func TestDue(t *testing.T) {
	plan, err := parsePlan("a=1@7s")
	if err != nil {
		t.Fatal(err)
	}
	l := newLife(PodOf(corev1.RestartPolicyAlways, "a"), plan, noon)
	now := noon
	const run = 7 * time.Second
	for _, want := range []time.Duration{run, run + restartDelay, 2*run + restartDelay, 2 * (run + restartDelay)} {
		for l.step(now) {
		}
		if got := l.due().Sub(noon); got != want {
			t.Fatalf("due after %v, want %v", got, want)
		}
		now = l.due()
	}
}

func TestParsePlan(t *testing.T) {
	p, err := parsePlan(" load = 1, 0@250ms ;*=hold; ")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		container string
		n         int
		want      run
	}{
		{"load", 0, run{exit: 1}},
		{"load", 1, run{after: 250 * time.Millisecond}},
		{"load", 5, run{after: 250 * time.Millisecond}},
		{"other", 0, run{hold: true}},
	} {
		if got := p.run(c.container, c.n); got != c.want {
			t.Errorf("run %d of %s: %+v, want %+v", c.n, c.container, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"load":     "CONTAINER=RUN",
		"load=x":   `"x"`,
		"load=256": `"256"`,
		"load=-1":  `"-1"`,
		"load=0@5": "missing unit",
		"load=":    `""`,
	} {
		if _, err := parsePlan(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("plan %q: error %v, want one with %q", text, err, want)
		}
	}
}
