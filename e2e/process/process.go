// Package process runs the programs of a test cluster as children of this process: it starts them, waits
// until they are ready, sends them signals, and sees to it that none outlives its parent.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Limits of what Start and Stop wait for when their context sets none. A kube-apiserver with a request under
// way may take a minute to end.
const (
	StartTimeout = 2 * time.Minute
	StopTimeout  = 90 * time.Second
)

// ErrAddressInUse says that a program ended at its start because somebody took its port first. Choose
// another port and start again.
var ErrAddressInUse = errors.New("address already in use")

// Process is a program that can be started, stopped and started again with the same arguments. Set its
// fields before the first Start. Its methods may be called from several goroutines.
type Process struct {
	Name string
	Path string
	Args []string
	Env  []string // besides the environment of this process; later entries win
	Log  string   // file that takes stdout and stderr, of all runs
	// Ready is asked again and again until it returns nil; a nil Ready means ready at once.
	Ready func(context.Context) error

	mu  sync.Mutex
	run *run
}

// run is one run of a program. err may be read once exited is closed.
type run struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error
	offset int64 // where its output begins in the log
}

// Start starts the program and returns when it is ready. Of a program that ends before, or is not ready in
// time, nothing is left, and the error ends with the last lines that it wrote.
func (p *Process) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	r, err := p.launch()
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	if err := p.waitReady(ctx, r); err != nil {
		_ = p.Kill()
		return err
	}
	return nil
}

func (p *Process) launch() (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil && p.run.alive() {
		return nil, errors.New("it is running already")
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor
	info, err := log.Stat()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	// It dies with its parent, and a terminal's Ctrl-C is the parent's to take: it ends its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &run{cmd: cmd, exited: make(chan struct{}), offset: info.Size()}
	go func() {
		r.err = cmd.Wait()
		close(r.exited)
	}()
	p.run = r
	return r, nil
}

func (p *Process) waitReady(ctx context.Context, r *run) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := error(nil)
		if p.Ready != nil {
			err = p.Ready(ctx)
		}
		select {
		case <-r.exited:
			tail := p.tail(r)
			if strings.Contains(tail, "address already in use") {
				return fmt.Errorf("%s ended before it was ready: %w; its last words:\n%s", p.Name, ErrAddressInUse,
					tail)
			}
			return fmt.Errorf("%s ended before it was ready (%v); its last words:\n%s", p.Name, r.err, tail)
		default:
		}
		if err == nil {
			return nil
		}
		select {
		case <-r.exited: // reported above
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (%w); its last words:\n%s", p.Name, ctx.Err(), err, p.tail(r))
		case <-tick.C:
		}
	}
}

// Stop asks the program to end (SIGTERM), also one that is stopped by SIGSTOP, and kills it when it has not
// done so in time; that is an error. A program that does not run is stopped already.
func (p *Process) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StopTimeout)
	defer cancel()
	r := p.current()
	if r == nil || !r.alive() {
		return nil
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	_ = r.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-r.exited:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s did not end when asked to: %w", p.Name, ctx.Err()), p.Kill())
	}
}

// Kill ends the program at once (SIGKILL) and waits until it is gone.
func (p *Process) Kill() error {
	r := p.current()
	if r == nil || !r.alive() {
		return nil
	}
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.Name, err)
	}
	<-r.exited
	return nil
}

// Restart is Stop and Start.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Signal sends a signal to the running program.
func (p *Process) Signal(s os.Signal) error {
	r := p.current()
	if r == nil || !r.alive() {
		return fmt.Errorf("signal %v: %s is not running", s, p.Name)
	}
	return r.cmd.Process.Signal(s)
}

// Running reports whether the program runs. A program that is stopped by SIGSTOP runs.
func (p *Process) Running() bool {
	r := p.current()
	return r != nil && r.alive()
}

// PID returns the id of the running or last run process, 0 before the first start.
func (p *Process) PID() int {
	if r := p.current(); r != nil {
		return r.cmd.Process.Pid
	}
	return 0
}

// Tail returns the last lines that the present, or else the last, run wrote.
func (p *Process) Tail() string {
	if r := p.current(); r != nil {
		return p.tail(r)
	}
	return ""
}

func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

func (r *run) alive() bool {
	select {
	case <-r.exited:
		return false
	default:
		return true
	}
}

// tailBytes is how much of a log an error shows.
const tailBytes = 4096

// tail reads the end of what a run wrote.
func (p *Process) tail(r *run) string {
	f, err := os.Open(p.Log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	from := max(r.offset, info.Size()-tailBytes)
	text, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return err.Error()
	}
	if _, rest, ok := strings.Cut(string(text), "\n"); ok && from > r.offset { // cut at a line
		return "…\n" + rest
	}
	return string(text)
}
