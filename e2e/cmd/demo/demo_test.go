package main

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/e2e/scenarios"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

func plain(width int) (*screen, *strings.Builder) {
	var text strings.Builder
	return &screen{Writer: &text, width: width}, &text
}

// Without a terminal nothing is painted; with one, only what has ink.
func TestPaint(t *testing.T) {
	s := screen{}
	if got := s.paint(red, "x"); got != "x" {
		t.Errorf("painted %q without a terminal", got)
	}
	s.colour = true
	if got := s.paint(red, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("got %q", got)
	}
	if got := s.paint(red, "  "); got != "  " {
		t.Errorf("got %q", got)
	}
}

func TestBar(t *testing.T) {
	for name, test := range map[string]struct {
		reserved, capacity int64
		want               string
	}{
		"empty":    {0, 24576, strings.Repeat("░", 32) + " 0 of 24576 MiB, 24576 free"},
		"a little": {1, 24576, "█" + strings.Repeat("░", 31) + " 1 of 24576 MiB, 24575 free"},
		"half": {12288, 24576, strings.Repeat("█", 16) + strings.Repeat("░",
			16) + " 12288 of 24576 MiB, 12288 free"},
		"too much": {30000, 24576, strings.Repeat("█", 32) + " 30000 of 24576 MiB, 5424 too many"},
		"nothing":  {0, 0, strings.Repeat("░", 32) + " 0 of 0 MiB, 0 free"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := plain(100)
			d := stack.LedgerDevice{UUID: "G", Capacity: stack.Amount{MemoryMiB: test.capacity},
				Reserved: stack.Amount{MemoryMiB: test.reserved}}
			if diff := cmp.Diff(pad("G", 20)+" "+test.want, s.bar(d)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLines(t *testing.T) {
	s, text := plain(labelWidth + 2 + 14)
	s.line("given", dim, "a pod is élève\nand more than fits into it")
	s.line("given", dim, "another")
	s.more("happened", green, "a: 1234567")
	s.more("happened", green, "a: 8")
	s.more("happened", green, "a: too long for that")
	s.more("happened", green, "a: x")
	s.more("happened", green, "b: y")
	s.raw("reserved", cyan, "a   b")
	s.raw("reserved", cyan, "c")
	want := "" +
		"  given       a pod is élève\n" +
		"              and more than\n" +
		"              fits into it\n" +
		"  given       another\n" +
		"  happened    a: 1234567 · 8\n" +
		"              a: too long\n" +
		"              for that · x\n" +
		"              b: y\n" +
		"  reserved    a   b\n" +
		"              c\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
}

// What fails ends the scenario, not the demo, and all cleanups are called, last first.
func TestStage(t *testing.T) {
	for name, test := range map[string]struct {
		play    func(*stage)
		failure string
		called  []string
	}{
		"well": {func(*stage) {}, "", []string{"second", "first"}},
		"failure": {func(s *stage) {
			s.Fatalf("no %s", "room")
			panic("not reached")
		}, "no room", []string{"second", "first"}},
		"failure in a cleanup, too": {func(s *stage) {
			s.Cleanup(func() { s.Fatalf("not clean") })
			s.Fatalf("no room")
		}, "no room", []string{"second", "first"}},
		"failure in a cleanup": {func(s *stage) {
			s.Cleanup(func() { s.Fatalf("not clean") })
		}, "not clean", []string{"second", "first"}},
		"panic": {func(*stage) { panic("oh") }, "panic: oh", []string{"second", "first"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, text := plain(100)
			s := &stage{ctx: t.Context(), screen: out}
			var called []string
			s.run(func() {
				for _, name := range []string{"first", "second"} {
					s.Cleanup(func() { called = append(called, name) })
				}
				test.play(s)
			})
			failure, _, _ := strings.Cut(s.failure, "\n")
			if failure != test.failure {
				t.Errorf("failure %q, want %q", failure, test.failure)
			}
			if !strings.Contains(text.String(), test.failure) {
				t.Errorf("it shows %q", text)
			}
			if diff := cmp.Diff(test.called, called); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An interrupted scenario ends without waiting for cleanups and without calling itself wrong on the screen.
func TestStageInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, text := plain(100)
	s := &stage{ctx: ctx, screen: out}
	s.run(func() {
		s.Cleanup(func() { t.Error("cleanup was called") })
		cancel()
		s.Fatalf("%v", ctx.Err())
	})
	if s.failure == "" || text.String() != "" {
		t.Errorf("failure %q, shown %q", s.failure, text)
	}
}

func TestChosen(t *testing.T) {
	all, err := chosen(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		if i > 0 && all[i-1].Number >= s.Number {
			t.Errorf("scenario %d is not in its place", s.Number)
		}
	}
	some, err := chosen([]string{"3", "1"})
	if err != nil {
		t.Fatal(err)
	}
	var numbers []int
	for _, s := range some {
		numbers = append(numbers, s.Number)
	}
	if diff := cmp.Diff([]int{3, 1}, numbers); diff != "" {
		t.Error(diff)
	}
	if _, err := chosen([]string{"x"}); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("error %v does not name the scenario", err)
	}
}

// Every scenario has a number and a title of its own: tests and the demo select by them.
func TestScenariosDiffer(t *testing.T) {
	titles, numbers := map[string]bool{}, map[int]bool{}
	for _, s := range scenarios.All() {
		if s.Title == "" || titles[s.Title] || numbers[s.Number] {
			t.Errorf("scenario %d %q is there twice", s.Number, s.Title)
		}
		titles[s.Title], numbers[s.Number] = true, true
	}
}
