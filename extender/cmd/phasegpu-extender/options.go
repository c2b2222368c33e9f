package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/extender/internal/events"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// options are the command line.
type options struct {
	kubeconfig                string
	qps                       float64
	burst                     int
	listen, metricsListen     string
	pprof                     bool
	bindTimeout               time.Duration
	defaults                  podrequest.Defaults
	events                    []string // reasons, see package events
	leaseNamespace, leaseName string
	identity                  string
	logLevel                  string
	version                   bool
}

func parse(args []string, out io.Writer) (*options, error) {
	o := &options{events: events.Reasons()}
	f := flag.NewFlagSet("phasegpu-extender", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; without it the pod's service account is used")
	f.Float64Var(&o.qps, "qps", 1000, "requests per second to the API server; a bind is one")
	f.IntVar(&o.burst, "burst", 2000, "requests to the API server at once")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8888", "address for kube-scheduler: /filter, /prioritize, /preempt, /bind. It has no authentication: keep it on loopback")
	f.StringVar(&o.metricsListen, "metrics-listen", ":8080", "address of /healthz, /readyz, /metrics, /debug/ledger and the page, all of which only read")
	f.BoolVar(&o.pprof, "pprof", false, "serve profiles at /debug/pprof/ of --metrics-listen, to whoever can reach it")
	f.DurationVar(&o.bindTimeout, "bind-timeout", 15*time.Second, "how long a bind may wait for its turn on the node; less than the scheduler's httpTimeout")
	f.Func("node-policy", "between nodes, for pods that do not say: binpack or spread (default binpack)", func(text string) (err error) {
		o.defaults.NodePolicy, err = wire.ParsePolicy(text)
		return err
	})
	f.Func("device-policy", "between devices, for pods that do not say: binpack or spread (default binpack)", func(text string) (err error) {
		o.defaults.DevicePolicy, err = wire.ParsePolicy(text)
		return err
	})
	f.Func("release", "when completed init containers give back what they held, for pods that do not say: per-init, all-inits or hold (default per-init)", func(text string) (err error) {
		o.defaults.Release, err = phase.ParseRelease(text)
		return err
	})
	f.Func("events", "reasons of events on pods, comma-separated; \"\" for none (default "+strings.Join(events.Reasons(), ",")+")", func(text string) error {
		o.events = nil
		for reason := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == ',' || c == ' ' }) {
			if !slices.Contains(events.Reasons(), reason) {
				return fmt.Errorf("%q is none of %s", reason, strings.Join(events.Reasons(), ", "))
			}
			o.events = append(o.events, reason)
		}
		return nil
	})
	f.StringVar(&o.leaseNamespace, "lease-namespace", "phasegpu-system", "namespace of the scheduler's Lease")
	f.StringVar(&o.leaseName, "lease-name", "phasegpu-scheduler", "the scheduler's Lease: this extender binds only while the scheduler beside it holds it. Empty when there is but one scheduler and it elects no leader")
	f.StringVar(&o.identity, "identity", "", "the scheduler's identity in its Lease up to the \"_\" before the UUID; the host name when empty, as for kube-scheduler")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.bindTimeout <= 0 || o.qps <= 0 || o.burst <= 0 {
		return nil, errors.New("--bind-timeout, --qps and --burst must be above 0")
	}
	if o.identity == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("--identity is empty and the host name unknown: %w", err)
		}
		o.identity = name
	}
	return o, nil
}
