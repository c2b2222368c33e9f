// Package server is the service's HTTPS and what belongs to it: the certificate, readiness, metrics.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/gen/refit"
)

// shutdownTimeout bounds how long questions under way may take when the process ends.
const shutdownTimeout = 2 * refit.Budget

// Options is what Serve serves.
type Options struct {
	Refit   net.Listener // HTTPS
	Handler http.Handler
	Cert    *Certificate

	Health  net.Listener // HTTP: /healthz, /readyz, /metrics
	Ready   func(context.Context) error
	Metrics *Metrics

	// Drain is how long to go on serving once /readyz says no, so that the Service stops sending questions
	// here before the port closes.
	Drain time.Duration
	Log   *zap.Logger
}

// Serve serves until ctx ends, drains, and returns nil; or it returns why it could not serve. /readyz says
// no from the moment ctx ends.
func Serve(ctx context.Context, o Options) error {
	questions, health := httpServer(o.Handler, o.Log), httpServer(healthHandler(ctx, o), o.Log)
	questions.TLSConfig = o.Cert.TLS()
	defer questions.Close()
	defer health.Close()
	counted := sniffing{o.Refit, func() { o.Metrics.count(refused, refit.PlainHTTP) }}
	failed := make(chan error, 2)
	go func() { failed <- fmt.Errorf("serving %s: %w", refit.Path, questions.ServeTLS(counted, "", "")) }()
	go func() { failed <- fmt.Errorf("serving health and metrics: %w", health.Serve(o.Health)) }()
	o.Log.Info("serving", zap.Stringer("refit", o.Refit.Addr()), zap.Stringer("health", o.Health.Addr()))

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	o.Log.Info("shutting down", zap.Duration("drain", o.Drain))
	select {
	case err := <-failed:
		return err
	case <-time.After(o.Drain):
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	return errors.Join(questions.Shutdown(deadline), health.Shutdown(deadline))
}

func httpServer(h http.Handler, log *zap.Logger) *http.Server {
	errorLog, _ := zap.NewStdLogAt(log.Named("http"), zap.InfoLevel) // the level is valid
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: refit.Budget,
		ReadTimeout:       2 * refit.Budget,
		WriteTimeout:      4 * refit.Budget,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          errorLog,
	}
}

func healthHandler(ctx context.Context, o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok") // the process ends when one of its parts does
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		err := o.Ready(r.Context())
		if ctx.Err() != nil {
			err = errors.New("shutting down")
		}
		if err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics.Registry, promhttp.HandlerOpts{}))
	return mux
}
