package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/phase"
)

// options are the command's flags.
type options struct {
	listen, healthListen string
	certFile, keyFile    string
	kubeconfig           string
	allowSchedulers      []string
	release              phase.Release
	drain                time.Duration
	logLevel             string
	version              bool
}

// parse reads the flags; usage and errors of the flag package go to out.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("phasegpu-webhook", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.listen, "listen", ":8443", "`address` of admission (HTTPS)")
	flags.StringVar(&o.healthListen, "health-listen", ":8080", "`address` of /healthz, /readyz and /metrics (HTTP)")
	flags.StringVar(&o.certFile, "tls-cert-file", "/etc/phasegpu/tls/tls.crt", "PEM `file` with the serving certificate; a new one is used without a restart")
	flags.StringVar(&o.keyFile, "tls-key-file", "/etc/phasegpu/tls/tls.key", "PEM `file` with its private key")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; without one, the service account of the pod that this runs in")
	flags.Func("allow-scheduler", "`name` of another scheduler that uses phasegpu's extender; its pods are admitted and keep their schedulerName (repeatable)", o.allowScheduler)
	flags.Func("release", "`policy` by which pods give back what completed phases needed, unless their annotation says otherwise: per-init, all-inits or hold; as in the extender (default per-init)", func(value string) (err error) {
		o.release, err = phase.ParseRelease(value)
		return err
	})
	flags.DurationVar(&o.drain, "drain", 5*time.Second, "`time` to go on serving after /readyz says no, before the port closes")
	flags.StringVar(&o.logLevel, "log-level", "info", "`level` from which to log: debug, info, warn or error")
	flags.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: flags begin with --", flags.Arg(0))
	}
	return o, nil
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
