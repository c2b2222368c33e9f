package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phasegpu/phasegpu/e2e/process"
	"github.com/phasegpu/phasegpu/gen/await"
)

// shell is a process that runs a script; the script says that it is ready by creating file "ready".
func shell(t *testing.T, script string) *process.Process {
	t.Helper()
	dir := t.TempDir()
	p := &process.Process{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script},
		Env: []string{"DIR=" + dir},
		Log: filepath.Join(dir, "log"),
		Ready: func(context.Context) error {
			_, err := os.Stat(filepath.Join(dir, "ready"))
			return err
		},
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func start(t *testing.T, p *process.Process) {
	t.Helper()
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const serve = `touch $DIR/ready; while :; do sleep 1 & wait; done`

func TestStartWaitsUntilReady(t *testing.T) {
	p := shell(t, serve)
	start(t, p)
	if !p.Running() || !exists(p.PID()) {
		t.Fatal("not running after Start")
	}
	if err := p.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "running already") {
		t.Errorf("second Start: %v, want an error saying that it runs", err)
	}
}

func TestStartFails(t *testing.T) {
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for _, c := range []struct {
		name, script string
		ctx          context.Context
		want         string
		is           error
	}{
		{"program ends", `echo no such flag; exit 3`, t.Context(), "no such flag", nil},
		{"port taken", `echo listen tcp: bind: address already in use; exit 1`, t.Context(), "ended before",
			process.ErrAddressInUse},
		{"never ready", `echo still loading; while :; do sleep 1 & wait; done`, short, "still loading",
			context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := shell(t, c.script)
			err := p.Start(c.ctx)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v, want %v", err, c.is)
			}
			if p.Running() {
				t.Error("left running")
			}
		})
	}
}

func TestErrorShowsThisRunOnly(t *testing.T) {
	p := shell(t, `if test -e $DIR/second; then echo again; exit 1; fi; echo first words; touch $DIR/second; `+serve)
	start(t, p)
	if err := os.Remove(filepath.Join(filepath.Dir(p.Log), "ready")); err != nil {
		t.Fatal(err)
	}
	err := p.Restart(t.Context())
	if err == nil || !strings.Contains(err.Error(), "again") || strings.Contains(err.Error(), "first words") {
		t.Errorf("error %v, want the words of the second run alone", err)
	}
	log, err := os.ReadFile(p.Log)
	if err != nil || !strings.Contains(string(log), "first words") {
		t.Errorf("log %q, %v; want it to keep the first run", log, err)
	}
}

func TestStop(t *testing.T) {
	t.Run("asks first", func(t *testing.T) {
		p := shell(t, `trap 'echo goodbye; exit 0' TERM; `+serve)
		start(t, p)
		if err := p.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exists(p.PID()) || !strings.Contains(p.Tail(), "goodbye") {
			t.Errorf("after Stop: running %v, log %q", exists(p.PID()), p.Tail())
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Errorf("second Stop: %v", err)
		}
	})
	t.Run("stopped by a signal", func(t *testing.T) {
		p := shell(t, serve)
		start(t, p)
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("kills a process that does not end", func(t *testing.T) {
		p := shell(t, `trap '' TERM; `+serve)
		start(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := p.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want one saying that it did not end in time", err)
		}
		if exists(p.PID()) {
			t.Error("left running")
		}
	})
}

func TestSignalWithoutProcess(t *testing.T) {
	p := shell(t, serve)
	if err := p.Signal(syscall.SIGSTOP); err == nil {
		t.Error("no error before Start")
	}
	start(t, p)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGSTOP); err == nil {
		t.Error("no error after Kill")
	}
}

// TestChildDiesWithParent runs itself as a parent that is killed.
func TestChildDiesWithParent(t *testing.T) {
	if os.Getenv("PARENT") != "" {
		p := shell(t, serve)
		start(t, p)
		fmt.Println("child", p.PID())
		<-t.Context().Done() // until killed
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildDiesWithParent$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), "PARENT=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := 0
	for lines := bufio.NewScanner(out); child == 0 && lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "child "); ok {
			child, _ = strconv.Atoi(id)
		}
	}
	if child == 0 || !exists(child) {
		t.Fatalf("child %d does not run", child)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	await.Until(t, "the child ends with its parent", func() bool { return !exists(child) })
}

func TestWithPorts(t *testing.T) {
	other := errors.New("other")
	for _, c := range []struct {
		name     string
		failures []error
		calls    int
		want     error
	}{
		{"works", nil, 1, nil},
		{"taken once", []error{process.ErrAddressInUse}, 2, nil},
		{"always taken", []error{process.ErrAddressInUse, process.ErrAddressInUse, process.ErrAddressInUse}, 3,
			process.ErrAddressInUse},
		{"another error", []error{other}, 1, other},
	} {
		calls := 0
		err := process.WithPorts(3, func(ports []int) error {
			calls++
			if len(ports) != 3 || ports[0] == ports[1] || ports[1] == ports[2] || ports[0] == ports[2] {
				t.Errorf("%s: ports %v, want three", c.name, ports)
			}
			if calls > len(c.failures) {
				return nil
			}
			return fmt.Errorf("start: %w", c.failures[calls-1])
		})
		if calls != c.calls || !errors.Is(err, c.want) {
			t.Errorf("%s: %d calls, error %v; want %d, %v", c.name, calls, err, c.calls, c.want)
		}
	}
}

// exists reports whether a process runs; one that has ended and not been waited for does not.
func exists(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
