package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/e2e/process"
	"github.com/phasegpu/phasegpu/e2e/scenarios"
	"github.com/phasegpu/phasegpu/e2e/stack"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// result is how a scenario went.
type result struct {
	scenarios.Scenario
	failure string // "" when all was as expected
	took    time.Duration
}

// perform plays a scenario on the screen. drawn are the pods whose phases were shown before.
func perform(ctx context.Context, story scenarios.Scenario, cluster *stack.Stack, kubectl string, drawn map[string]bool,
	out *screen) result {
	began := time.Now()
	out.title(fmt.Sprintf("%d  %s", story.Number, story.Title))
	s := &stage{ctx: ctx, screen: out, explain: kubectl, drawn: drawn}
	s.run(func() { scenarios.Perform(s, cluster, story) })
	out.end()
	r := result{Scenario: story, failure: s.failure, took: time.Since(began)}
	if r.failure == "" {
		fmt.Fprintf(out, "  %s %s\n", out.verdict(true), out.paint(dim, seconds(r.took)))
	}
	return r
}

// stage is the screen as a place to play on.
type stage struct {
	ctx      context.Context
	screen   *screen
	explain  string          // path of kubectl-phasegpu
	drawn    map[string]bool // pods by their containers
	cleanups []func()
	failure  string
}

// run plays and cleans up, in a goroutine that Fatalf can end.
func (s *stage) run(play func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.clean()
		defer s.survive()
		play()
	}()
	<-done
}

// clean calls the cleanups, last first, also when one of them ends in Fatalf. There is no use in them when
// the demo was interrupted and everything ends anyway.
func (s *stage) clean() {
	if len(s.cleanups) == 0 || s.ctx.Err() != nil {
		return
	}
	next := s.cleanups[len(s.cleanups)-1]
	s.cleanups = s.cleanups[:len(s.cleanups)-1]
	defer s.clean()
	defer s.survive()
	next()
}

// survive makes a failure of a panic.
func (s *stage) survive() {
	if r := recover(); r != nil {
		s.fail(fmt.Sprintf("panic: %v\n%s", r, debug.Stack()))
	}
}

func (s *stage) fail(text string) {
	if s.failure == "" {
		s.failure = text
	}
	if s.ctx.Err() == nil {
		s.screen.line("✗ WRONG", red, text)
	}
}

// Helper does nothing: the demo shows no line numbers.
func (s *stage) Helper() {}

// Context ends when the demo is interrupted.
func (s *stage) Context() context.Context { return s.ctx }

// Cleanup has f called when the scenario has ended.
func (s *stage) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// Fatalf ends the scenario.
func (s *stage) Fatalf(format string, args ...any) {
	s.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// Show shows an event. What happens to one pod in a row goes on one line, as far as it fits.
func (s *stage) Show(e scenarios.Event) {
	switch e.Kind {
	case scenarios.Submitted:
		s.screen.line(string(e.Kind), bold, e.Text)
		s.draw(e.Pod)
	case scenarios.Reserved:
		for _, d := range e.Devices {
			s.screen.raw(string(e.Kind), cyan, s.screen.bar(d))
		}
	case scenarios.Happened:
		s.screen.more(string(e.Kind), green, e.Text)
	default:
		s.screen.line(string(e.Kind), colours[e.Kind], e.Text)
	}
}

var colours = map[scenarios.Kind]style{scenarios.Given: dim, scenarios.Accountant: yellow}

// draw shows a pod's phases as kubectl phasegpu explain does, if there are several and no pod like it was drawn
// before.
func (s *stage) draw(pod *corev1.Pod) {
	shape := corev1.PodSpec{InitContainers: pod.Spec.InitContainers, Containers: pod.Spec.Containers}
	key := shape.String()
	if kube.Classes(&pod.Spec).Steady() == 0 || s.drawn[key] {
		return
	}
	s.drawn[key] = true
	text, err := s.explanation(pod)
	if err != nil {
		s.Fatalf("%v", err)
	}
	_, drawing, _ := strings.Cut(text, "\n\n") // the title says what is said already
	for line := range strings.Lines(drawing) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			s.screen.raw(string(scenarios.Submitted), bold, strings.TrimPrefix(line, "  "))
		}
	}
}

func (s *stage) explanation(pod *corev1.Pod) (string, error) {
	named := pod.DeepCopy()
	named.APIVersion, named.Kind = "v1", "Pod"
	text, err := yaml.Marshal(named)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(s.ctx, s.explain, "explain", "-f", "-")
	cmd.Stdin = bytes.NewReader(text)
	cmd.Env = append(os.Environ(), fmt.Sprintf("COLUMNS=%d", s.screen.width-labelWidth-2))
	return process.Output(cmd)
}
