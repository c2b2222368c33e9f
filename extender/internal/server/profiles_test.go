package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Profiles are served beside what is there, and nowhere without being asked for.
func TestProfiles(t *testing.T) {
	health := http.NewServeMux()
	health.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	for name, c := range map[string]struct {
		handler http.Handler
		path    string
		code    int
	}{
		"index":     {Profiles(health), "/debug/pprof/", 200},
		"heap":      {Profiles(health), "/debug/pprof/heap", 200},
		"unknown":   {Profiles(health), "/debug/pprof/nothing", 404},
		"health":    {Profiles(health), "/healthz", 200},
		"off":       {health, "/debug/pprof/", 404},
		"off, heap": {health, "/debug/pprof/heap", 404},
	} {
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
		if w.Code != c.code {
			t.Errorf("%s: GET %s: %d, want %d", name, c.path, w.Code, c.code)
		}
	}
}
