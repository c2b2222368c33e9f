package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientevents "k8s.io/client-go/tools/events"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/internal/bind"
	"github.com/phasegpu/phasegpu/extender/internal/events"
	"github.com/phasegpu/phasegpu/extender/internal/filter"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
	"github.com/phasegpu/phasegpu/extender/internal/leaderelection"
	"github.com/phasegpu/phasegpu/extender/internal/metrics"
	"github.com/phasegpu/phasegpu/extender/internal/nominated"
	"github.com/phasegpu/phasegpu/extender/internal/preempt"
	"github.com/phasegpu/phasegpu/extender/internal/requeue"
	"github.com/phasegpu/phasegpu/extender/internal/server"
	"github.com/phasegpu/phasegpu/extender/internal/ui"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// remembered is how many pods Bind finds as Filter saw them, without reading them again.
const remembered = 4096

// run serves until ctx ends.
func run(ctx context.Context, o *options) error {
	log, err := server.Logger(o.logLevel)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // stderr may be no file
	client, err := connect(o)
	if err != nil {
		return err
	}
	listen, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	metricsListen, err := net.Listen("tcp", o.metricsListen)
	if err != nil {
		return errors.Join(fmt.Errorf("--metrics-listen: %w", err), listen.Close())
	}

	// What follows outlives ctx: on shutdown, binds that are under way still need it.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	e := assemble(life, o, client, log)
	ready := func() error {
		if ctx.Err() != nil {
			return errors.New("shutting down")
		}
		return errors.Join(e.ready(), e.lead.Ready())
	}
	health := server.Health(ready, e.metrics.Registry,
		func() any { return ui.Read(e.feed.Seen(), o.defaults.Release, e.book, e.gate.States()) },
		e.site(o))
	if o.pprof {
		health = server.Profiles(health)
	}
	log.Info("serving", zap.Stringer("listen", listen.Addr()), zap.Stringer("metricsListen", metricsListen.Addr()))
	return server.Serve(ctx, o.bindTimeout, e.binder.Stop,
		server.Listener{Listener: listen, Handler: server.Extender(e.calls(), e.metrics, log)},
		server.Listener{Listener: metricsListen, Handler: health},
	)
}

func connect(o *options) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config = kube.Config(config)
	config.QPS, config.Burst = float32(o.qps), o.burst
	config.UserAgent = "phasegpu-extender"
	return kubernetes.NewForConfig(config)
}

// extender is the parts and what connects them.
type extender struct {
	book      *ledger.Book
	gate      *gate.Gate
	refused   *requeue.Queue
	filter    *filter.Filter
	preempt   *preempt.Preempt
	nominated *nominated.Set
	binder    *bind.Binder
	lead      *leaderelection.Lead
	feed      *kube.Feed
	metrics   *server.Metrics
	notices   *events.Notices
	log       *zap.Logger
}

// assemble starts everything but the listeners; it runs until ctx ends.
func assemble(ctx context.Context, o *options, client kubernetes.Interface, log *zap.Logger) *extender {
	e := &extender{book: ledger.New(), metrics: server.NewMetrics(), log: log}
	e.metrics.Begin(server.Labels{
		Refusals: filter.Reasons(), Failures: bind.Reasons(), Changes: events.Changes(), Events: events.Reasons(), EventResults: events.Results(),
	})
	core := client.CoreV1()

	e.refused = requeue.New(e.book, e.metrics, time.Now, log)
	e.gate = gate.New(time.Now, e.refused.NodeFreed)
	e.nominated = nominated.New(o.defaults, e.book, e.refused)
	nudger := requeue.NewNudger(core, time.Now, e.refused, log)

	recent := filter.NewRecent(remembered)
	e.filter = &filter.Filter{
		Book: e.book, Gate: e.gate, Nominated: e.nominated, Queue: e.refused, Recent: recent,
		Defaults: o.defaults, Metrics: e.metrics,
	}
	e.preempt = &preempt.Preempt{Book: e.book, Gate: e.gate, Nominated: e.nominated, Defaults: o.defaults}
	e.lead = &leaderelection.Lead{Namespace: o.leaseNamespace, Name: o.leaseName, Identity: o.identity, CatchUp: e.catchUp, Now: time.Now, Log: log}
	broadcaster := clientevents.NewBroadcaster(&clientevents.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		log.Error("events will not be written", zap.Error(err))
	}
	e.notices = events.New(events.Config{
		Recorder: broadcaster.NewRecorder(scheme.Scheme, "phasegpu-extender"), Reasons: o.events,
		Changed: e.metrics.Changed, Told: e.metrics.Told,
	})
	e.binder = bind.New(bind.Config{
		Pods: core, Book: e.book, Gate: e.gate, May: e.lead.May, Recent: recent, Defaults: o.defaults,
		Released: e.refused.Observe, Now: time.Now, Timeout: o.bindTimeout, Log: log,
		Bound: e.notices.Bound, Waited: e.metrics.Waited, Failed: e.metrics.Failed,
	})

	e.feed = kube.NewFeed(client, e.book, kube.FeedOptions{Release: o.defaults.Release, Observer: e})
	e.metrics.Registry.MustRegister(&metrics.Collector{Book: e.book, Gates: e.gate.States, Waiting: e.refused.Waiting, Leads: e.lead.Leads})

	go func() { _ = e.feed.Run(ctx) }() // ends with ctx
	go e.nominated.Run(ctx, client)
	go e.refused.Run(ctx, e.gate, e.nominated, nudger)
	go nudger.Run(ctx)
	go e.binder.Run(ctx)
	go e.lead.Run(ctx, client)
	return e
}

func (e *extender) calls() server.Calls {
	return server.Calls{Ready: e.ready, Filter: e.filter.Filter, Prioritize: e.filter.Prioritize, Preempt: e.preempt.Preempt, Bind: e.binder.Bind}
}

func (e *extender) site(o *options) *ui.Site {
	return ui.NewSite(ui.Source{
		Book: e.book, Gates: e.gate.States, Release: o.defaults.Release,
		Unready: e.ready, Standby: e.lead.Office, Refused: e.refused.Waiting,
	})
}

func (e *extender) ready() error {
	if !e.feed.Synced() || !e.nominated.Synced() {
		return errors.New("the books are not rebuilt yet: the watches of pods, nodes and quotas have not synced")
	}
	return nil
}

// ObservePod implements kube.Observer.
func (e *extender) ObservePod(old, new *corev1.Pod, before *ledger.Entry, d ledger.Delta) {
	pod := cmp.Or(new, old)
	if new == nil {
		e.gate.Leave(string(old.UID))
	} else {
		e.gate.Observe(new)
	}
	e.nominated.Bound(string(pod.UID), new)
	e.refused.Remove(string(pod.UID))
	if d.Changed && e.lead.Leads() {
		e.notices.Observed(before, new, d, e.book.Pod(string(pod.UID)), e.book.Node(pod.Spec.NodeName))
	}
	e.refused.Observe(d)
}

// Observe implements kube.Observer.
func (e *extender) Observe(d ledger.Delta) { e.refused.Observe(d) }

// ObserveProblem implements kube.Observer.
func (e *extender) ObserveProblem(kind, object string, err error) {
	e.metrics.Problem(kind)
	e.log.Warn("cannot be read", zap.String("kind", kind), zap.String("object", object), zap.Error(err))
}

// catchUp brings the books up to date with what other extenders have bound.
func (e *extender) catchUp(ctx context.Context) error {
	for !e.feed.Synced() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	changed, err := e.feed.Relist(ctx, func(pod *corev1.Pod) {
		e.gate.Observe(pod)
		e.refused.Remove(string(pod.UID))
	})
	for _, d := range changed {
		e.refused.Observe(d)
	}
	return err
}
