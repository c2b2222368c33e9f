package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/phasegpu/phasegpu/gen/process"
	"github.com/phasegpu/phasegpu/gen/refit"
	"github.com/phasegpu/phasegpu/numarefit/internal/auth"
	"github.com/phasegpu/phasegpu/numarefit/internal/decide"
	"github.com/phasegpu/phasegpu/numarefit/internal/server"
	"github.com/phasegpu/phasegpu/numarefit/internal/trust"
)

const (
	// A caller waits for refit.Budget. Of that, decideWithin is for the decision and the write, and then settleWithin
	// to find a write's outcome; the rest is for the way back.
	decideWithin = refit.Budget * 3 / 4
	settleWithin = refit.Budget / 5

	reachWithin     = time.Second // how long /readyz waits for the API server
	shutdownTimeout = 2 * refit.Budget
)

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.Version {
		return process.PrintVersion(name, stdout)
	}
	log, err := o.Logger(stderr)
	if err != nil {
		return err
	}
	client, err := o.Client(name, -1, 0) // a queue for the API server would only use up the 2 s
	if err != nil {
		return err
	}
	listeners, err := process.Listen(ctx, o.listen, o.healthListen)
	if err != nil {
		return err
	}
	recording, stop := context.WithCancel(context.WithoutCancel(ctx)) // during the drain, too
	defer stop()

	certificate := process.NewCertificate(o.certFile, o.keyFile, log)
	if o.caName != "" {
		ca := trust.CA{
			File:      filepath.Join(filepath.Dir(o.certFile), trust.Key),
			Namespace: o.caNamespace, Name: o.caName, ConfigMaps: client.CoreV1(), Log: log,
		}
		go ca.Keep(ctx)
	}
	registry := process.NewRegistry()
	registry.MustRegister(certificate.Expiry("phasegpu_numarefit_certificate_expiry_timestamp_seconds"))
	api := decide.API{Core: client.CoreV1()}
	handler := &server.Handler{
		Auth: &auth.Reviewer{
			Reviews: client.AuthenticationV1().TokenReviews(), Pods: api,
			Audience: o.audience, Namespace: o.namespace, ServiceAccount: o.serviceAccount,
		},
		Decider: &decide.Decider{Store: api, Defaults: o.defaults, Settle: settleWithin},
		Events:  process.Recorder(recording, client, name, log),
		Metrics: server.NewMetrics(registry), Log: log, Budget: decideWithin,
	}
	ready := func(ctx context.Context) error { return errors.Join(certificate.Valid(), reach(ctx, client)) }
	return process.Serve(ctx, log, process.Shutdown{Drain: o.drain, Grace: shutdownTimeout},
		handler.Server(listeners[0], certificate),
		process.Server{Name: "health", Listener: listeners[1], Handler: process.Health(ctx, ready, registry)},
	)
}

// reach checks that the API server answers; without it nothing can be decided.
func reach(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx); err != nil {
		return fmt.Errorf("the API server does not answer: %w", err)
	}
	return nil
}
