// Package server is what the webhook's process is made of besides admission: the serving certificate,
// the two HTTP servers, readiness and the logger.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// shutdownTimeout bounds how long requests under way may take when the process ends: longer than the
// API server waits for an answer.
const shutdownTimeout = 10 * time.Second

// Options is what Serve serves.
type Options struct {
	Admission net.Listener // HTTPS
	Handler   http.Handler
	TLS       *tls.Config

	Health  net.Listener // HTTP: /healthz, /readyz, /metrics
	Ready   func() error // why requests should not be sent here now, or nil
	Metrics prometheus.Gatherer

	// Drain is how long to go on serving once /readyz says no, so that the Service stops sending requests
	// here before the port closes.
	Drain time.Duration
	Log   *zap.Logger
}

// Serve serves until ctx ends, drains, and returns nil; or it returns why it could not serve. /readyz
// says no from the moment ctx ends.
func Serve(ctx context.Context, o Options) error {
	admission := httpServer(o.Handler, o.Log)
	admission.TLSConfig = o.TLS
	health := httpServer(healthHandler(ctx, o), o.Log)
	defer admission.Close()
	defer health.Close()

	failed := make(chan error, 2)
	go func() { failed <- fmt.Errorf("serving admission: %w", admission.ServeTLS(o.Admission, "", "")) }()
	go func() { failed <- fmt.Errorf("serving health and metrics: %w", health.Serve(o.Health)) }()
	o.Log.Info("serving", zap.Stringer("admission", o.Admission.Addr()), zap.Stringer("health", o.Health.Addr()))

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
	return errors.Join(admission.Shutdown(deadline), health.Shutdown(deadline))
}

func httpServer(h http.Handler, log *zap.Logger) *http.Server {
	errorLog, _ := zap.NewStdLogAt(log.Named("http"), zap.InfoLevel) // the level is valid
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       2 * time.Minute, // the API server keeps its connections
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          errorLog,
	}
}

func healthHandler(ctx context.Context, o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok") // the process ends when one of its parts does
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := o.Ready()
		if ctx.Err() != nil {
			err = errors.New("shutting down")
		}
		if err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
	return mux
}
