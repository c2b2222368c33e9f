package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
)

//go:embed page.html
var document []byte

// maxFind is how long a search may be.
const maxFind = 200

// Source is where the UI gets what it shows.
type Source struct {
	Book      *ledger.Book
	Release   phase.Release                // of pods that name none
	Feed      interface{ Seen() uint64 }   // see Ledger.Seen
	Readiness interface{ Ready() error }   // why the books are not complete yet
	Lease     interface{ Standby() error } // why this extender binds nothing
	Gates     interface{ States() []gate.State }
	Requeue   interface{ Waiting() int } // refused pods that will be tried again
}

// Handle adds the books as JSON at /debug/ledger and, at /ui/ and from / on, the page.
func Handle(mux *http.ServeMux, source Source) {
	mux.HandleFunc("GET /debug/ledger", func(w http.ResponseWriter, _ *http.Request) {
		seen := source.Feed.Seen() // before the books
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(Read(seen, source.Release, source.Book, source.Gates.States())) // the client may be gone
	})
	mux.Handle("/ui/", newSite(source))
	mux.Handle("GET /{$}", http.RedirectHandler("ui/", http.StatusFound)) // relative, because of proxies
}

// site serves the page, read only: at /ui/ a document that loads nothing else, and at /ui/state.json its data.
type site struct {
	source Source
	start  string // distinguishes this process's generations from another's
	tag    string // of the document
	policy string
}

func newSite(source Source) *site {
	start := strconv.FormatInt(time.Now().UnixNano(), 36)
	return &site{source: source, start: start, tag: etag(document), policy: policy(document)}
}

// ServeHTTP implements http.Handler, for paths from /ui/ on.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the page is read-only", http.StatusMethodNotAllowed)
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", s.policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	switch r.URL.Path {
	case "/ui/":
		send(w, r, "text/html; charset=utf-8", s.tag, document)
	case "/ui/state.json":
		s.state(w, r)
	default:
		http.NotFound(w, r)
	}
}

// state answers a query. While the browser has the current answer, nothing but the facts is read.
func (s *site) state(w http.ResponseWriter, r *http.Request) {
	q, err := parse(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	generation, facts := s.source.Book.Generation(), s.facts()
	version, err := json.Marshal([]any{s.start, generation, facts, facts.Gates})
	tag := etag(version)
	var text []byte
	if err == nil && r.Header.Get("If-None-Match") != tag {
		text, err = json.Marshal(state(generation, facts, s.source.Book, q))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	send(w, r, "application/json", tag, text)
}

func (s *site) facts() Facts {
	why := func(err error) string {
		if err != nil {
			return err.Error()
		}
		return ""
	}
	return Facts{
		Release: s.source.Release.String(), Unready: why(s.source.Readiness.Ready()),
		Standby: why(s.source.Lease.Standby()), Refused: s.source.Requeue.Waiting(),
		Gates: shut(s.source.Gates.States()),
	}
}

// parse reads a query; every parameter may be absent.
func parse(v url.Values) (Query, error) {
	q := Query{View: "nodes", Show: v.Get("show"), Find: strings.Fields(strings.ToLower(v.Get("q")))}
	if view := v.Get("view"); view != "" {
		q.View = view
	}
	switch {
	case perPage[q.View] == 0:
		return q, fmt.Errorf("view %.20q is unknown: use nodes, pods, namespaces or gates", q.View)
	case !slices.Contains([]string{"", "attention", "inits"}, q.Show):
		return q, fmt.Errorf("show %.20q is unknown: use attention, inits or nothing", q.Show)
	case len(v.Get("q")) > maxFind:
		return q, fmt.Errorf("the search has %d bytes, at most %d are looked for", len(v.Get("q")), maxFind)
	}
	if text := v.Get("page"); text != "" {
		page, err := strconv.Atoi(text)
		if err != nil || page < 0 {
			return q, errors.New("page is not a whole number from 0 on")
		}
		q.Page = page
	}
	return q, nil
}

// policy allows the document its own script and style, by their hashes, and its data. No script may turn text into
// markup.
func policy(document []byte) string {
	hash := func(tag string) string {
		_, rest, _ := bytes.Cut(document, []byte("<"+tag+">"))
		inside, _, _ := bytes.Cut(rest, []byte("</"+tag+">"))
		sum := sha256.Sum256(inside)
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; script-src " + hash("script") + "; style-src " + hash("style") +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" +
		"; require-trusted-types-for 'script'; trusted-types 'none'"
}

// send answers with a text, compressed if the browser accepts that, or with 304 if it has the text with this tag.
func send(w http.ResponseWriter, r *http.Request, kind, tag string, text []byte) {
	header := w.Header()
	header.Set("ETag", tag)
	header.Set("Cache-Control", "no-cache")
	header.Set("Vary", "Accept-Encoding")
	header.Set("Content-Type", kind)
	if acceptsGzip(r) {
		header.Set("Content-Encoding", "gzip")
		var packed bytes.Buffer
		z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // the level is valid
		_, _ = z.Write(text)                                 // a buffer takes everything
		_ = z.Close()
		text = packed.Bytes()
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// etag is weak, because the same answer may be compressed or not.
func etag(text []byte) string {
	h := fnv.New128a()
	_, _ = h.Write(text) // never fails
	return fmt.Sprintf(`W/"%x"`, h.Sum(nil))
}

func acceptsGzip(r *http.Request) bool {
	for _, one := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.ReplaceAll(one, " ", ""), ";")
		if name == "gzip" {
			q, err := strconv.ParseFloat(strings.TrimPrefix(quality, "q="), 64)
			return quality == "" || err == nil && q > 0
		}
	}
	return false
}
