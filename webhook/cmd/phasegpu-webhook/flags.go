package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/process"
)

// options are the command's flags.
type options struct {
	process.Options
	listen, healthListen string
	certFile, keyFile    string
	allowSchedulers      []string
	release              phase.Release
	drain                time.Duration
}

// parse reads the flags; usage and errors of the flag package go to out.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	f := o.Flags(name, out)
	f.StringVar(&o.listen, "listen", ":8443", "`address` of admission (HTTPS)")
	f.StringVar(&o.healthListen, "health-listen", ":8080", "`address` of /healthz, /readyz and /metrics (HTTP)")
	f.StringVar(&o.certFile, "tls-cert-file", "/etc/phasegpu/tls/tls.crt",
		"PEM `file` with the serving certificate; a new one is used without a restart")
	f.StringVar(&o.keyFile, "tls-key-file", "/etc/phasegpu/tls/tls.key", "PEM `file` with its private key")
	f.Func("allow-scheduler", "`name` of another scheduler that uses phasegpu's extender; its pods are admitted "+
		"and keep their schedulerName (repeatable)", o.allowScheduler)
	f.Func("release", "`policy` by which pods release what completed phases needed, unless their annotation says "+
		"otherwise: per-init, all-inits or hold; as in the extender (default per-init)",
		func(value string) (err error) { o.release, err = phase.ParseRelease(value); return err })
	f.DurationVar(&o.drain, "drain", 5*time.Second,
		"`time` to go on serving after /readyz says no, before the port closes")
	return o, process.Parse(f, args)
}

func (o *options) allowScheduler(name string) error {
	if strings.TrimSpace(name) == "" {
		return fmt.Errorf("the name is empty")
	}
	if name == corev1.DefaultSchedulerName {
		return fmt.Errorf("pods have that name when they ask for no scheduler, so it always becomes phasegpu's")
	}
	o.allowSchedulers = append(o.allowSchedulers, name)
	return nil
}
