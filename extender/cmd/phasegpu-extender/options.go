package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/extender/internal/app"
	"github.com/phasegpu/phasegpu/extender/internal/events"
	"github.com/phasegpu/phasegpu/gen/process"
)

// parse reads the command line.
func parse(args []string, out io.Writer) (*app.Options, error) {
	o := &app.Options{Events: events.Reasons()}
	f := o.Flags(app.Name, out)
	f.Float64Var(&o.QPS, "qps", 1000, "requests per second to the API server; a bind is one")
	f.IntVar(&o.Burst, "burst", 2000, "requests to the API server at once")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8888",
		"`address` for kube-scheduler: /filter, /prioritize, /preempt, /bind. "+
			"It has no authentication: keep it on loopback")
	f.StringVar(&o.MetricsListen, "metrics-listen", ":8080",
		"`address` of /healthz, /readyz, /metrics, /debug/ledger and the page, all of which only read")
	f.BoolVar(&o.Profiles, "pprof", false,
		"serve profiles at /debug/pprof/ of --metrics-listen, to whoever can reach it")
	f.DurationVar(&o.BindTimeout, "bind-timeout", 15*time.Second,
		"how long a bind may wait for its turn on the node; less than the scheduler's httpTimeout")
	f.Func("node-policy", "between nodes, for pods that do not say: binpack or spread (default binpack)",
		func(text string) (err error) {
			o.Defaults.NodePolicy, err = wire.ParsePolicy(text)
			return err
		})
	f.Func("device-policy", "between devices, for pods that do not say: binpack or spread (default binpack)",
		func(text string) (err error) {
			o.Defaults.DevicePolicy, err = wire.ParsePolicy(text)
			return err
		})
	f.Func("release", "when completed init containers give back what they held, for pods that do not say: per-init, "+
		"all-inits or hold (default per-init)",
		func(text string) (err error) {
			o.Defaults.Release, err = phase.ParseRelease(text)
			return err
		})
	f.Func("events", `reasons of events on pods, comma-separated; "" for none (default `+
		strings.Join(events.Reasons(), ",")+")",
		func(text string) (err error) {
			o.Events, err = parseEvents(text)
			return err
		})
	f.StringVar(&o.LeaseNamespace, "lease-namespace", "phasegpu-system", "namespace of the scheduler's Lease")
	f.StringVar(&o.LeaseName, "lease-name", "phasegpu-scheduler",
		"the scheduler's Lease: this extender binds only while the scheduler "+
			"beside it holds it. Empty when there is but one scheduler and it elects no leader")
	f.StringVar(&o.Identity, "identity", "",
		"the scheduler's identity in its Lease up to the \"_\" before the UUID; "+
			"the host name when empty, as for kube-scheduler")
	if err := process.Parse(f, args); err != nil {
		return nil, err
	}
	if o.BindTimeout <= 0 || o.QPS <= 0 || o.Burst <= 0 {
		return nil, errors.New("--bind-timeout, --qps and --burst must be above 0")
	}
	if o.Identity == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("--identity is empty and the host name unknown: %w", err)
		}
		o.Identity = name
	}
	return o, nil
}

func parseEvents(text string) (reasons []string, err error) {
	for reason := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == ',' || c == ' ' }) {
		if !slices.Contains(events.Reasons(), reason) {
			return nil, fmt.Errorf("%q is none of %s", reason, strings.Join(events.Reasons(), ", "))
		}
		reasons = append(reasons, reason)
	}
	return reasons, nil
}
