package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"

	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/gen/refit"
	"github.com/phasegpu/phasegpu/numarefit/internal/auth"
	"github.com/phasegpu/phasegpu/numarefit/internal/decide"
	"github.com/phasegpu/phasegpu/numarefit/internal/server"
	"github.com/phasegpu/phasegpu/numarefit/internal/trust"
)

// A caller waits for refit.Budget and no longer. Within it a question is decided, then what became of a
// write is asked, and the answer is on its way.
const (
	decideWithin = refit.Budget * 3 / 4
	settleWithin = refit.Budget / 5
)

// reachWithin bounds how long /readyz waits for the API server.
const reachWithin = time.Second

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.version {
		fmt.Fprintf(stdout, "phasegpu-numarefit %s (commit %s)\n", version, commit)
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
	// Events of the last answers are written while the server drains.
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(recording); err != nil {
		log.Error("events will not be written", zap.Error(err))
	}
	defer broadcaster.Shutdown()

	certificate := &server.Certificate{CertFile: o.certFile, KeyFile: o.keyFile, Log: log}
	if o.caName != "" {
		ca := trust.CA{File: filepath.Join(filepath.Dir(o.certFile), trust.Key), Namespace: o.caNamespace, Name: o.caName, ConfigMaps: client.CoreV1(), Log: log}
		go ca.Keep(ctx)
	}
	metrics := server.NewMetrics(certificate)
	api := decide.API{Core: client.CoreV1()}
	return server.Serve(ctx, server.Options{
		Refit: listeners[0],
		Handler: &server.Handler{
			Auth: &auth.Reviewer{
				Reviews: client.AuthenticationV1().TokenReviews(), Pod: api.Pod,
				Audience: o.audience, Namespace: o.namespace, ServiceAccount: o.serviceAccount,
			},
			Decider: &decide.Decider{Store: api, Defaults: o.defaults, Settle: settleWithin},
			Tell:    server.Tell(broadcaster.NewRecorder(scheme.Scheme, "phasegpu-numarefit")),
			Metrics: metrics, Log: log, Budget: decideWithin,
		},
		Cert:    certificate,
		Health:  listeners[1],
		Ready:   func(ctx context.Context) error { return errors.Join(certificate.Valid(), reach(ctx, client)) },
		Metrics: metrics,
		Drain:   o.drain,
		Log:     log,
	})
}

// reach reports whether the API server answers: nothing can be decided without it.
func reach(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx); err != nil {
		return fmt.Errorf("the API server does not answer: %w", err)
	}
	return nil
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
	config.UserAgent = "phasegpu-numarefit/" + version
	config.QPS = -1 // the API server knows its own limits; a queue here would only use up the 2 s
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
