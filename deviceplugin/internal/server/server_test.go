package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pipes is a listener of connections that are no sockets, so that a bubble's time passes for them.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func (l pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l pipes) Close() error   { close(l.ended); return nil }
func (l pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Clients that keep the server waiting are cut off, also those that go on saying something.
func TestSlowClients(t *testing.T) {
	for name, more := range map[string]string{"says nothing more": "", "goes on": "X: y\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := pipes{make(chan net.Conn), make(chan struct{})}
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- Serve(ctx, l, func() error { return nil }, prometheus.NewRegistry()) }()
				client, server := net.Pipe()
				l.conns <- server
				began, said := time.Now(), make(chan struct{})
				go func() {
					defer close(said)
					_, err := io.WriteString(client, "GET /metrics HTTP/1.1\r\nHost: x\r\n")
					for err == nil && more != "" {
						time.Sleep(time.Second)
						_, err = io.WriteString(client, more)
					}
				}()
				_, _ = io.Copy(io.Discard, client)
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it was cut off after %v", took)
				}
				client.Close()
				<-said
				stop()
				if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}

func TestEndlessHeaders(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, func() error { return nil }, prometheus.NewRegistry()) }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X", strings.Repeat("y", 1<<20))
	answer, err := http.DefaultClient.Do(r)
	if err == nil {
		answer.Body.Close()
		if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a header of 1 MiB: %s", answer.Status)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
