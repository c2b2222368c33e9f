package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/phasegpu/phasegpu/e2e/controlplane/build"
	"github.com/phasegpu/phasegpu/e2e/process"
)

// Options say what differs from the usual. The zero value is fine.
type Options struct {
	// Dir, new or empty, keeps data, keys and logs after Stop. "": a temporary directory that Stop removes.
	Dir string
	// Progress gets a line about each program that is built. Nil: os.Stderr.
	Progress io.Writer
	// APIServerArgs are added to kube-apiserver's arguments; a later one wins.
	APIServerArgs []string
	// Audit makes the API server log every request, for AuditLog.
	Audit bool
}

// ControlPlane is a running control plane. Its processes can be acted on at any time.
type ControlPlane struct {
	Etcd              *process.Process
	APIServer         *process.Process
	ControllerManager *process.Process
	Scheduler         *process.Process // not started by Start

	// Dir has all files: logs below logs, kubeconfigs below kubeconfigs.
	Dir string
	// URL of the API server.
	URL string
	// SchedulerURL is where kube-scheduler serves metrics and profiles; SchedulerPage reads them.
	SchedulerURL string

	pki       pki
	tokens    map[string]string // by user
	temporary bool              // Dir is ours to remove
}

// Start builds what is missing and starts etcd, API server and controller manager. It returns when the API
// server is ready and pods can be created in namespace default. ctx bounds the start alone; the processes
// run until Stop, or until this process ends.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	programs, err := build.Programs(ctx, o.Progress, build.ControlPlane()...)
	if err != nil {
		return nil, err
	}
	var c *ControlPlane
	err = process.WithPorts(numPorts, func(ports []int) (err error) {
		c, err = start(ctx, o, programs, ports)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	return c, nil
}

func start(ctx context.Context, o Options, programs []string, ports []int) (_ *ControlPlane, err error) {
	c := &ControlPlane{Dir: o.Dir, temporary: o.Dir == ""}
	if c.temporary {
		if c.Dir, err = os.MkdirTemp("", "phasegpu-controlplane-"); err != nil {
			return nil, err
		}
	} else if c.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	for _, dir := range []string{"logs", "kubeconfigs", "pki", "scheduler"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, dir), 0o700); err != nil {
			return nil, err
		}
	}
	if err := c.configure(o, programs, ports); err != nil {
		return nil, err
	}
	for _, p := range []*process.Process{c.Etcd, c.APIServer, c.ControllerManager} {
		if err := p.Start(ctx); err != nil {
			return nil, err
		}
	}
	return c, c.WaitForNamespace(ctx, "default")
}

// Stop kills all processes, waits until they are gone, and removes Dir unless it was asked for. It may be
// called again.
func (c *ControlPlane) Stop() error {
	var errs []error
	for _, p := range c.processes() {
		errs = append(errs, p.Kill())
	}
	if c.temporary {
		errs = append(errs, os.RemoveAll(c.Dir))
	}
	return errors.Join(errs...)
}

// LogDir is where the logs are, one file per program.
func (c *ControlPlane) LogDir() string { return filepath.Join(c.Dir, "logs") }

// processes lists those that are described yet, in the order in which to end them.
func (c *ControlPlane) processes() []*process.Process {
	all := []*process.Process{c.Scheduler, c.ControllerManager, c.APIServer, c.Etcd}
	return slices.DeleteFunc(all, func(p *process.Process) bool { return p == nil })
}
