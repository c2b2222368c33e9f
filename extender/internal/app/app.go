// Package app is the extender as a whole: it makes its parts, starts them, and passes on what the watches show.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/internal/bind"
	"github.com/phasegpu/phasegpu/extender/internal/events"
	"github.com/phasegpu/phasegpu/extender/internal/filter"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
	"github.com/phasegpu/phasegpu/extender/internal/leaderelection"
	"github.com/phasegpu/phasegpu/extender/internal/metrics"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/extender/internal/preempt"
	"github.com/phasegpu/phasegpu/extender/internal/requeue"
	"github.com/phasegpu/phasegpu/extender/internal/server"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/gen/process"
)

// Name is the extender's in its log, its events and its requests to the API server.
const Name = "phasegpu-extender"

// Options are what an operator chooses.
type Options struct {
	process.Options
	QPS                       float64
	Burst                     int
	Listen, MetricsListen     string
	Profiles                  bool
	BindTimeout               time.Duration
	Defaults                  podrequest.Defaults
	Events                    []string // reasons, see package events
	LeaseNamespace, LeaseName string
	Identity                  string // the scheduler's in its Lease
}

// Run serves until ctx ends.
func Run(ctx context.Context, o *Options, stderr io.Writer) error {
	log, err := o.Logger(stderr)
	if err != nil {
		return err
	}
	client, err := o.Client(Name, float32(o.QPS), o.Burst)
	if err != nil {
		return err
	}
	listeners, err := process.Listen(ctx, o.Listen, o.MetricsListen)
	if err != nil {
		return fmt.Errorf("--listen or --metrics-listen: %w", err)
	}
	// The extender outlives ctx: on shutdown, binds that are under way still need it.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	e := Start(life, o, client, log)
	return process.Serve(ctx, log, process.Shutdown{Grace: o.BindTimeout, Stopping: e.binder.Stop},
		process.Server{Name: "extender", Listener: listeners[0], Handler: e.Handler(), Write: writeTimeout},
		process.Server{Name: "metrics", Listener: listeners[1], Handler: e.Health(ctx), Write: writeTimeout},
	)
}

// writeTimeout leaves time for a bind that waits for its turn, and for a profile of half a minute.
const writeTimeout = 2 * time.Minute

// remembered is how many pods Bind finds as Filter saw them, without reading them again.
const remembered = 4096

// Extender is the parts.
type Extender struct {
	options   *Options
	book      *ledger.Book
	gate      *gate.Gate
	requeue   *requeue.Queue
	filter    *filter.Filter
	preempt   *preempt.Preempt
	nominated *nominated.Set
	binder    *bind.Binder
	lease     *leaderelection.SchedulerLease
	feed      *kube.Feed
	metrics   *metrics.Metrics
	events    *events.PodEvents
	log       *zap.Logger
}

// Start starts everything but the listeners. It runs until ctx ends.
func Start(ctx context.Context, o *Options, client kubernetes.Interface, log *zap.Logger) *Extender {
	e := &Extender{options: o, book: ledger.New(), log: log, metrics: metrics.New(metrics.Labels{
		Refusals: filter.Reasons(), Failures: bind.Reasons(), Changes: events.Changes(),
		Events: events.Reasons(), EventResults: events.Results(),
	})}
	core := client.CoreV1()
	recent := filter.NewRecent(remembered)

	e.requeue = requeue.New(e.book, e.metrics, time.Now, log)
	e.gate = gate.New(time.Now, e.requeue)
	e.nominated = nominated.New(o.Defaults, e.book, e.requeue)
	nudger := requeue.NewNudger(core, time.Now, e.requeue, log)
	e.filter = &filter.Filter{
		Book: e.book, Gate: e.gate, Nominated: e.nominated, Queue: e.requeue, Recent: recent,
		Defaults: o.Defaults, Metrics: e.metrics,
	}
	e.preempt = &preempt.Preempt{Book: e.book, Gate: e.gate, Nominated: e.nominated, Defaults: o.Defaults}
	e.lease = &leaderelection.SchedulerLease{
		Namespace: o.LeaseNamespace, Name: o.LeaseName, Identity: o.Identity, Books: e, Now: time.Now, Log: log,
	}
	e.events = events.New(process.Recorder(ctx, client, Name, log), o.Events, e.metrics)
	e.binder = bind.New(bind.Config{
		Pods: core, Book: e.book, Gate: e.gate, Lease: e.lease, Recent: recent, Defaults: o.Defaults,
		Requeue: e.requeue, Events: e.events, Metrics: e.metrics,
		Now: time.Now, Timeout: o.BindTimeout, Log: log,
	})
	e.feed = kube.NewFeed(client, e.book, kube.FeedOptions{Release: o.Defaults.Release, Observer: e})
	e.metrics.MustRegister(&metrics.Collector{Book: e.book, Gates: e.gate, Requeue: e.requeue, Lease: e.lease})

	go func() { _ = e.feed.Run(ctx) }() // ends with ctx
	go e.nominated.Run(ctx, client)
	go e.requeue.Run(ctx, e.gate, e.nominated, nudger)
	go nudger.Run(ctx)
	go e.binder.Run(ctx)
	go e.lease.Run(ctx, client)
	return e
}

// Handler serves kube-scheduler's calls.
func (e *Extender) Handler() http.Handler {
	return server.Extender(server.Calls{
		Readiness: e, Filterer: e.filter, Preempter: e.preempt, Binder: e.binder,
	}, e.metrics, e.log)
}

// Health serves health, metrics, the books and the UI. ctx ends when the extender shuts down.
func (e *Extender) Health(ctx context.Context) http.Handler {
	ready := func(context.Context) error { return errors.Join(e.Ready(), e.lease.Ready()) }
	mux := process.Health(ctx, ready, e.metrics)
	ui.Handle(mux, ui.Source{
		Book: e.book, Release: e.options.Defaults.Release,
		Feed: e.feed, Readiness: e, Gates: e.gate, Requeue: e.requeue, Lease: e.lease,
	})
	if e.options.Profiles {
		process.Profiles(mux)
	}
	return mux
}

// Ready returns nil once the books are complete.
func (e *Extender) Ready() error {
	if !e.feed.Synced() || !e.nominated.Synced() {
		return errors.New("the books are not rebuilt yet: the watches of pods, nodes and quotas have not synced")
	}
	return nil
}
