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

// Source is where a Site gets what it shows.
type Source struct {
	Book    *ledger.Book
	Gates   func() []gate.State
	Release phase.Release // of pods that name none
	Unready func() error  // why the books are not to be trusted yet
	Standby func() error  // why this extender binds nothing
	Refused func() int    // refused pods that will be woken when there is room
}

// Site serves the page, read only: at /ui/ a document that needs nothing from elsewhere, and at
// /ui/state.json its data.
type Site struct {
	source Source
	start  string // tells the generations of one process from those of another
	page   body
	policy string
}

// NewSite returns a Site.
func NewSite(source Source) *Site {
	return &Site{
		source: source, start: strconv.FormatInt(time.Now().UnixNano(), 36),
		page: newBody(document, "text/html; charset=utf-8"), policy: policy(document),
	}
}

// ServeHTTP implements http.Handler, for paths from /ui/ on.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		s.page.serve(w, r, etag(s.page.plain))
	case "/ui/state.json":
		s.state(w, r)
	default:
		http.NotFound(w, r)
	}
}

// state answers a query. Where neither the books nor the rest have changed since the answer that the browser
// has, it reads nothing else.
func (s *Site) state(w http.ResponseWriter, r *http.Request) {
	q, err := parse(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	generation, facts := s.source.Book.Generation(), s.facts()
	seen, err := json.Marshal([]any{s.start, generation, facts, facts.Gates})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	tag := etag(seen)
	if unchanged(w, r, tag) {
		return
	}
	text, err := json.Marshal(state(generation, facts, s.source.Book, q))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	b := body{kind: "application/json", plain: text}
	if acceptsGzip(r) {
		b.packed = pack(text, gzip.BestSpeed)
	}
	b.serve(w, r, tag)
}

func (s *Site) facts() Facts {
	why := func(ask func() error) string {
		if err := ask(); err != nil {
			return err.Error()
		}
		return ""
	}
	return Facts{
		Release: s.source.Release.String(), Unready: why(s.source.Unready), Standby: why(s.source.Standby),
		Refused: s.source.Refused(), Gates: shut(s.source.Gates()),
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

// policy allows the document its own script and style, by their hashes, and its data; and no script may make
// markup out of text.
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

// body is an answer, as it is and packed; packed is nil when nobody asked for it.
type body struct {
	kind          string
	plain, packed []byte
}

func newBody(text []byte, kind string) body {
	return body{kind: kind, plain: text, packed: pack(text, gzip.BestCompression)}
}

func pack(text []byte, level int) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, level) // the levels are constants
	_, _ = z.Write(text)                     // a buffer takes everything
	_ = z.Close()
	return out.Bytes()
}

func (b body) serve(w http.ResponseWriter, r *http.Request, tag string) {
	if unchanged(w, r, tag) {
		return
	}
	text := b.plain
	if b.packed != nil && acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		text = b.packed
	}
	w.Header().Set("Content-Type", b.kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // who has gone needs no answer
}

// unchanged answers that the browser has it already.
func unchanged(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") != tag {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

// etag is weak, because an answer may be packed or not.
func etag(seen []byte) string {
	h := fnv.New128a()
	_, _ = h.Write(seen) // never fails
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
