package stack

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

// Intercept restarts the extender so that it reaches the API server through a handler of the test's: wrap
// gets the one that passes requests on, with the extender's own token, and streams the answers. An API server
// that is away is a connection that breaks. end closes the way again.
func (s *Stack) Intercept(ctx context.Context, wrap func(apiServer http.Handler) http.Handler) (end func(), err error) {
	proxy, err := s.passOn()
	if err != nil {
		return nil, err
	}
	certificates := filepath.Join(s.Dir, "intercept")
	if err := s.ServingCertificate(certificates); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: wrap(proxy), ReadHeaderTimeout: 10 * time.Second}
	go func() { // ends with Close
		_ = server.ServeTLS(listener, filepath.Join(certificates, "tls.crt"), filepath.Join(certificates, "tls.key"))
	}()
	end = func() { _ = server.Close() }
	config, err := s.ServiceAccount(ctx, SystemNamespace, "phasegpu-extender")
	if err != nil {
		return end, err
	}
	config.Host = "https://" + listener.Addr().String()
	path, err := s.Kubeconfig("phasegpu-extender-intercepted", config)
	if err != nil {
		return end, err
	}
	if err := s.Extender.Stop(ctx); err != nil {
		return end, err
	}
	s.Extender.Args = append(s.Extender.Args, "--kubeconfig="+path)
	return end, s.Extender.Start(ctx)
}

// passOn is a handler that passes requests on to the API server, with the credentials that they have.
func (s *Stack) passOn() (http.Handler, error) {
	target, err := url.Parse(s.URL)
	if err != nil {
		return nil, fmt.Errorf("URL of the API server: %w", err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(s.Admin()))
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // events of a watch are passed on as they come
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler)
		},
	}, nil
}
