package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Listener is one address and what is served there.
type Listener struct {
	net.Listener
	http.Handler
}

// Serve serves until ctx ends, or until one listener fails. It then calls stopping, which should end what
// is under way, and waits for the answers, at most for grace.
func Serve(ctx context.Context, grace time.Duration, stopping func(context.Context), listeners ...Listener) error {
	failed := make(chan error, len(listeners))
	var servers []*http.Server
	for _, l := range listeners {
		s := &http.Server{
			Handler:        l.Handler,
			ReadTimeout:    10 * time.Second,
			WriteTimeout:   2 * time.Minute, // a bind waits for --bind-timeout, a profile takes half a minute
			IdleTimeout:    2 * time.Minute,
			MaxHeaderBytes: 64 << 10,
		}
		servers = append(servers, s)
		go func() {
			if err := s.Serve(l.Listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serving %s: %w", l.Addr(), err)
			}
		}()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	stopping(end)
	for _, s := range servers {
		err = errors.Join(err, s.Shutdown(end))
	}
	return err
}
