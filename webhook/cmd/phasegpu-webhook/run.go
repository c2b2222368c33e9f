package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/webhook/internal/admission"
	"github.com/phasegpu/phasegpu/webhook/internal/quota"
	"github.com/phasegpu/phasegpu/webhook/internal/server"
)

// run serves until ctx ends, or does what a subcommand says.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "certificates" {
		return certificates(ctx, args[1:], stderr)
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.version {
		fmt.Fprintf(stdout, "phasegpu-webhook %s (commit %s)\n", version, commit)
		return nil
	}
	log, err := server.Logger(o.logLevel, stderr)
	if err != nil {
		return err
	}
	client, err := connect(o.kubeconfig)
	if err != nil {
		return err
	}
	listeners, err := listen(ctx, o.listen, o.healthListen)
	if err != nil {
		return err
	}

	certificate := server.NewCertificate(o.certFile, o.keyFile, log)
	registry := newRegistry(certificate)
	book := ledger.New()
	feed := kube.NewFeed(client, book, kube.FeedOptions{
		Release:      o.release,
		WithoutNodes: true,
		OnProblem:    problems(registry, log),
	})
	synced := func() error {
		if !feed.Synced() {
			return errors.New("the first list of pods and ResourceQuotas is not complete")
		}
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("POST /mutate", &admission.Handler{
		Policy: admission.Policy{
			AllowSchedulers: o.allowSchedulers,
			Quota:           func(pod *corev1.Pod, r []device.Request) error { return quota.Check(book, pod, r) },
			Ready:           synced,
		},
		Metrics: admission.NewMetrics(registry),
		Log:     log,
	})

	// The books are kept until the last request is answered, so the feed does not end with ctx.
	feeding, stop := context.WithCancel(context.WithoutCancel(ctx))
	fed := make(chan error, 1)
	go func() { fed <- feed.Run(feeding) }()
	err = server.Serve(ctx, server.Options{
		Admission: listeners[0],
		Handler:   mux,
		TLS:       certificate.TLS(),
		Health:    listeners[1],
		Ready:     func() error { return errors.Join(synced(), certificate.Valid()) },
		Metrics:   registry,
		Drain:     o.drain,
		Log:       log,
	})
	stop()
	return errors.Join(err, <-fed)
}

// connect returns a client of the API server that a kubeconfig file names, or of the one whose pod this is.
func connect(kubeconfig string) (kubernetes.Interface, error) {
	var config *rest.Config
	var err error
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	} else if config, err = rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
		err = errors.New("this does not run in a pod: name the API server with --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("configuration of the API server's client: %w", err)
	}
	config = kube.Config(config)
	config.UserAgent = "phasegpu-webhook/" + version
	return kubernetes.NewForConfig(config)
}

// listen opens TCP ports, all or none.
func listen(ctx context.Context, addresses ...string) ([]net.Listener, error) {
	var open []net.Listener
	for _, address := range addresses {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			for _, l := range open {
				l.Close()
			}
			return nil, err
		}
		open = append(open, l)
	}
	return open, nil
}

// newRegistry returns a registry with the metrics of the process and the certificate.
func newRegistry(c *server.Certificate) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "phasegpu_webhook_certificate_expiry_timestamp_seconds",
			Help: "Unix time at which the serving certificate expires, 0 without one.",
		}, func() float64 {
			if notAfter, err := c.NotAfter(); err == nil {
				return float64(notAfter.UnixNano()) / float64(time.Second)
			}
			return 0
		}),
	)
	return registry
}

// problems counts and logs what cannot be read, in the extender's words.
func problems(r prometheus.Registerer, log *zap.Logger) func(runtime.Object, error) {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "phasegpu_webhook_unreadable_objects_total", Help: "Changes of objects that could not be read or accounted for, by kind.",
	}, []string{"kind"})
	r.MustRegister(count)
	for _, kind := range []string{"Pod", "ResourceQuota"} {
		count.WithLabelValues(kind)
	}
	return func(object runtime.Object, err error) {
		kind := "Pod"
		if _, ok := object.(*corev1.ResourceQuota); ok {
			kind = "ResourceQuota"
		}
		count.WithLabelValues(kind).Inc()
		fields := []zap.Field{zap.String("kind", kind), zap.Error(err)}
		if m, accessErr := meta.Accessor(object); accessErr == nil {
			fields = append(fields, zap.String("namespace", m.GetNamespace()), zap.String("name", m.GetName()))
		}
		log.Warn("cannot be read", fields...)
	}
}
