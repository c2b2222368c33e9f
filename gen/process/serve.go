package process

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// Listen opens TCP ports, all or none.
func Listen(ctx context.Context, addresses ...string) ([]net.Listener, error) {
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

// Server is one listener and what it serves.
type Server struct {
	Name string // in the log and in errors
	net.Listener
	http.Handler
	TLS *tls.Config // nil for plain HTTP
	// Read and Write bound one request and its answer; 0 means 10 s and 15 s.
	Read, Write time.Duration
}

// Shutdown says how Serve ends.
type Shutdown struct {
	Drain time.Duration // how long to serve on after the context's end, so that Services stop sending requests here
	Grace time.Duration // how long requests under way may then take
	// Stopping, if not nil, ends long requests after the drain. Its context ends with the grace period.
	Stopping func(context.Context)
}

// Serve serves until ctx ends, or until one server fails, and shuts down. It returns why it could not serve, or why
// requests under way were cut off.
func Serve(ctx context.Context, log *zap.Logger, end Shutdown, servers ...Server) error {
	failed := make(chan error, len(servers))
	var running []*http.Server
	var fields []zap.Field
	errorLog, _ := zap.NewStdLogAt(log.Named("http"), zap.InfoLevel) // the level is valid
	for _, s := range servers {
		server := &http.Server{
			Handler: s.Handler, TLSConfig: s.TLS, ErrorLog: errorLog,
			ReadTimeout: cmp.Or(s.Read, 10*time.Second), ReadHeaderTimeout: 5 * time.Second,
			WriteTimeout: cmp.Or(s.Write, 15*time.Second), IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		}
		defer server.Close()
		running, fields = append(running, server), append(fields, zap.Stringer(s.Name, s.Addr()))
		go func() {
			serve := server.Serve
			if s.TLS != nil {
				serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
			}
			failed <- fmt.Errorf("serving %s: %w", s.Name, serve(s.Listener))
		}()
	}
	log.Info("serving", fields...)

	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		log.Info("shutting down", zap.Duration("drain", end.Drain))
		select {
		case err = <-failed:
		case <-time.After(end.Drain):
		}
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), end.Grace)
	defer cancel()
	if end.Stopping != nil {
		end.Stopping(grace)
	}
	for _, s := range running {
		err = errors.Join(err, s.Shutdown(grace))
	}
	return err
}
