package server

import (
	"net/http"
	"net/http/pprof"
)

// Profiles adds to a handler what "go tool pprof" reads: /debug/pprof/profile, /debug/pprof/heap and so on.
// A profile that is being taken costs time, so it is for those who asked for it.
func Profiles(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
