package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/gen/process"
	"github.com/phasegpu/phasegpu/webhook/internal/admission"
)

// shutdownTimeout bounds how long requests under way may take when the process ends: longer than the API server waits
// for an answer.
const shutdownTimeout = 10 * time.Second

// run serves until ctx ends, or does what a subcommand says.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "certificates" {
		return certificates(ctx, args[1:], stderr)
	}
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
	client, err := o.Client(name, 0, 0)
	if err != nil {
		return err
	}
	listeners, err := process.Listen(ctx, o.listen, o.healthListen)
	if err != nil {
		return err
	}

	certificate := process.NewCertificate(o.certFile, o.keyFile, log)
	registry := process.NewRegistry()
	registry.MustRegister(certificate.Expiry("phasegpu_webhook_certificate_expiry_timestamp_seconds"))
	book := ledger.New()
	feed := kube.NewFeed(client, book, kube.FeedOptions{
		Release: o.release, WithoutNodes: true, Observer: newProblems(registry, log),
	})
	handler := &admission.Handler{
		Policy:  admission.Policy{AllowSchedulers: o.allowSchedulers, Book: book, Feed: feed},
		Metrics: admission.NewMetrics(registry),
		Log:     log,
	}
	mux := http.NewServeMux()
	mux.Handle("POST /mutate", handler)

	// The books are kept until the last request is answered, so the feed does not end with ctx.
	feeding, stop := context.WithCancel(context.WithoutCancel(ctx))
	fed := make(chan error, 1)
	go func() { fed <- feed.Run(feeding) }()
	ready := func(context.Context) error { return errors.Join(handler.Policy.Ready(), certificate.Valid()) }
	health := process.Health(ctx, ready, registry)
	err = process.Serve(ctx, log, process.Shutdown{Drain: o.drain, Grace: shutdownTimeout},
		process.Server{Name: "admission", Listener: listeners[0], Handler: mux, TLS: certificate.TLS()},
		process.Server{Name: "health", Listener: listeners[1], Handler: health},
	)
	stop()
	return errors.Join(err, <-fed)
}

// problems counts and logs what cannot be read.
type problems struct {
	kube.NoObserver
	count *prometheus.CounterVec
	log   *zap.Logger
}

func newProblems(r prometheus.Registerer, log *zap.Logger) problems {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "phasegpu_webhook_unreadable_objects_total",
		Help: "Changes of objects that could not be read or accounted for, by kind.",
	}, []string{"kind"})
	r.MustRegister(count)
	for _, kind := range []string{"Pod", "ResourceQuota"} {
		count.WithLabelValues(kind)
	}
	return problems{count: count, log: log}
}

// ObserveProblem implements kube.Observer.
func (p problems) ObserveProblem(kind, object string, err error) {
	p.count.WithLabelValues(kind).Inc()
	p.log.Warn("cannot be read", zap.String("kind", kind), zap.String("object", object), zap.Error(err))
}
