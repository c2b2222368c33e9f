package server

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Health returns the handler of /healthz, /readyz, /metrics, /debug/ledger and, from / on, the page at /ui/. ready
// says why the extender cannot serve; page returns the books.
func Health(ready func() error, registry *prometheus.Registry, page func() any, ui http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/ledger", func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.MarshalIndent(page(), "", "  ")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(body, '\n'))
	})
	mux.Handle("/ui/", ui)
	mux.Handle("GET /{$}", http.RedirectHandler("ui/", http.StatusFound)) // relative, for who comes through a proxy
	return mux
}
