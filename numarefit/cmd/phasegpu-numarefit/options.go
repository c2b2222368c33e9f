package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/process"
	"github.com/phasegpu/phasegpu/gen/refit"
)

// options are the command's flags.
type options struct {
	process.Options
	listen, healthListen      string
	certFile, keyFile         string
	audience                  string
	namespace, serviceAccount string
	caNamespace, caName       string
	defaults                  refit.Defaults
	drain                     time.Duration
}

// parse reads the flags; usage and errors of the flag package go to out.
func parse(args []string, out io.Writer) (*options, error) {
	o := &options{namespace: "phasegpu-node", serviceAccount: "phasegpu-device-plugin"}
	f := o.Flags(name, out)
	f.StringVar(&o.listen, "listen", ":8443", "`address` of "+refit.Path+" (HTTPS)")
	f.StringVar(&o.healthListen, "health-listen", ":8080", "`address` of /healthz, /readyz and /metrics (HTTP)")
	f.StringVar(&o.certFile, "tls-cert-file", "/etc/phasegpu/tls/tls.crt",
		"PEM `file` with the serving certificate; a new one is used without a restart")
	f.StringVar(&o.keyFile, "tls-key-file", "/etc/phasegpu/tls/tls.key", "PEM `file` with its private key")
	f.StringVar(&o.audience, "audience", refit.Audience, "`audience` that callers' tokens must be for")
	f.Func("service-account", "`namespace/name` of the service account that may call "+
		"(default phasegpu-node/phasegpu-device-plugin)",
		func(text string) error { return named(text, &o.namespace, &o.serviceAccount) })
	f.Func("ca-configmap", "`namespace/name` of a ConfigMap in which to keep the CA that is beside --tls-cert-file, "+
		"ca.crt, for callers; default: something else provides it",
		func(text string) error { return named(text, &o.caNamespace, &o.caName) })
	f.Func("release", "`policy` by which pods release what completed phases needed, unless their annotation says "+
		"otherwise: per-init, all-inits or hold; as in the extender (default per-init)", func(text string) (err error) {
		o.defaults.Release, err = phase.ParseRelease(text)
		return err
	})
	f.Func("device-policy", "`policy` between devices, for pods without one of their own: binpack or spread; "+
		"as in the extender (default binpack)", func(text string) (err error) {
		o.defaults.DevicePolicy, err = wire.ParsePolicy(text)
		return err
	})
	f.DurationVar(&o.drain, "drain", 5*time.Second,
		"`time` to go on serving after /readyz says no, before the port closes")
	if err := process.Parse(f, args); err != nil {
		return nil, err
	}
	if o.audience == "" {
		return nil, errors.New("--audience is empty: any token of the service account would be accepted")
	}
	return o, nil
}

// named reads namespace/name.
func named(text string, namespace, name *string) error {
	before, after, ok := strings.Cut(text, "/")
	if !ok || before == "" || after == "" || strings.ContainsAny(after, "/:") || strings.Contains(before, ":") {
		return fmt.Errorf("%q is not namespace/name", text)
	}
	*namespace, *name = before, after
	return nil
}
