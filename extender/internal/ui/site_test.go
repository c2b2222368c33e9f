package ui

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/gate"
)

// extender is the rest of an extender.
type extender struct {
	gates   []gate.State
	standby error
}

func (e *extender) Seen() uint64         { return 41 }
func (e *extender) Ready() error         { return nil }
func (e *extender) Standby() error       { return e.standby }
func (e *extender) States() []gate.State { return e.gates }
func (e *extender) Waiting() int         { return 2 }

func source(book *ledger.Book, e *extender) Source {
	return Source{Book: book, Release: phase.PerInit, Feed: e, Readiness: e, Lease: e, Gates: e, Requeue: e}
}

// newTestSite shows the books of books, with a gate.
func newTestSite(t *testing.T) (*site, *ledger.Book, *extender) {
	book, e := books(t), &extender{standby: errors.New("somebody else leads"), gates: []gate.State{{
		Node: "n1", Waiting: 1, Inside: []gate.Pod{{Name: "ns/c"}}, Since: time.Unix(1700000000, 5), Shut: time.Second,
	}}}
	return newSite(source(book, e)), book, e
}

func get(h http.Handler, path string, headers ...string) *http.Response {
	return ask(h, http.MethodGet, path, headers...)
}

func ask(h http.Handler, method, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func read(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readState(t *testing.T, h http.Handler, query string) State {
	t.Helper()
	r := get(h, "/ui/state.json?"+query)
	text := read(t, r)
	var s State
	if err := json.Unmarshal([]byte(text), &s); err != nil || r.StatusCode != 200 {
		t.Fatalf("%s: %d %s: %v", query, r.StatusCode, text, err)
	}
	return s
}

// The shape that the page's script reads: testdata/state.json.
func TestState(t *testing.T) {
	s, _, _ := newTestSite(t)
	got := readState(t, s, "")
	got.Generation = 0
	for _, view := range []string{"pods", "namespaces", "gates"} {
		other := readState(t, s, "view="+view)
		if view != "pods" { // they are in the nodes
			got.Namespaces, got.Gates = append(got.Namespaces, other.Namespaces...), append(got.Gates, other.Gates...)
		} else if len(other.Pods) != got.Counts["pods"].All {
			t.Errorf("%d pods, counted %v", len(other.Pods), got.Counts)
		}
	}
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/state.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)+"\n"); diff != "" {
		t.Error(diff)
	}
}

// An unchanged page costs nothing; whatever it shows changes its tag, but a gate's age.
func TestUnchanged(t *testing.T) {
	s, book, e := newTestSite(t)
	tag := func() string { return get(s, "/ui/state.json").Header.Get("ETag") }
	before := tag()
	if r := get(s, "/ui/state.json", "If-None-Match", before); r.StatusCode != 304 || read(t, r) != "" ||
		r.Header.Get("ETag") != before {
		t.Errorf("answers %d", r.StatusCode)
	}
	e.gates[0].Shut = time.Hour
	if tag() != before {
		t.Error("changes with the age of a gate")
	}
	changes := map[string]func(){
		"a gate":  func() { e.gates[0].Waiting++ },
		"a book":  func() { book.RemoveQuota("ns", "q") },
		"a start": func() { s.start = "another process" },
		"a lease": func() { e.standby = nil },
	}
	for what, change := range changes {
		before := tag()
		change()
		if r := get(s, "/ui/state.json", "If-None-Match", before); r.StatusCode != 200 || tag() == before {
			t.Errorf("does not change with %s", what)
		}
	}
	page := get(s, "/ui/")
	if r := get(s, "/ui/", "If-None-Match", page.Header.Get("ETag")); r.StatusCode != 304 {
		t.Errorf("the document: %d", r.StatusCode)
	}
}

func TestPacked(t *testing.T) {
	s, _, _ := newTestSite(t)
	for _, path := range []string{"/ui/", "/ui/state.json"} {
		plain := read(t, get(s, path, "Accept-Encoding", "br, gzip;q=0"))
		r := get(s, path, "Accept-Encoding", "br;q=1, gzip;q=0.8")
		z, err := gzip.NewReader(r.Body)
		if err != nil || r.Header.Get("Content-Encoding") != "gzip" {
			t.Fatal(path, err)
		}
		if text, err := io.ReadAll(z); err != nil || string(text) != plain || len(plain) == 0 {
			t.Errorf("%s: differs when packed: %v", path, err)
		}
	}
}

// The page runs nothing but its own script, loads nothing, sends nothing elsewhere, and changes nothing.
func TestGuarded(t *testing.T) {
	s, _, _ := newTestSite(t)
	r := get(s, "/ui/")
	html, policy := read(t, r), r.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-",
		"connect-src 'self'",
		"frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("no %s in %s", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("policy %s", policy)
	}
	if n := strings.Count(html, "<script"); n != 1 || strings.Count(html, "<style") != 1 {
		t.Errorf("%d scripts, %d styles", n, strings.Count(html, "<style"))
	}
	// Hashes cover neither handlers nor styles in attributes, so there are none; and nothing comes from elsewhere.
	for _, never := range []string{
		`<[^>]*\son\w+=`, `<[^>]*\sstyle=`, `https?://`, `innerHTML`, `insertAdjacentHTML`, `document\.write`,
		`\beval\b`,
	} {
		if found := regexp.MustCompile(never).FindString(html); found != "" {
			t.Errorf("has %q", found)
		}
	}
	if r.Header.Get("Content-Type") != "text/html; charset=utf-8" ||
		r.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", r.Header)
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		for _, path := range []string{"/ui/", "/ui/state.json"} {
			if r := ask(s, method, path); r.StatusCode != 405 || r.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d", method, path, r.StatusCode)
			}
		}
	}
	if r := get(s, "/ui/secrets"); r.StatusCode != 404 {
		t.Errorf("/ui/secrets: %d", r.StatusCode)
	}
}

func TestQueries(t *testing.T) {
	s, book, _ := newTestSite(t)
	book.SetNode(ledger.Node{Name: "n2", Devices: []device.Device{
		{UUID: "GPU-ABC", Family: "NVIDIA", Healthy: true, Capacity: device.Amount{MemoryMiB: 10}},
	}})
	for query, shown := range map[string][4]int{ // nodes, pods, namespaces, gates
		"":               {2, 3, 1, 1},
		"q=gpu-abc":      {1, 0, 0, 0},
		"q=ns/c":         {1, 1, 0, 1},
		"q=G1":           {1, 1, 0, 0}, // held by c
		"q=n1+b-uid":     {0, 1, 0, 0},
		"show=attention": {1, 3, 0, 1}, // a and b hold more than G0 has, G1 of c is unhealthy
		"show=inits":     {1, 2, 1, 1}, // b and c
		"q=none":         {0, 0, 0, 0},
	} {
		want := map[string]Count{
			"nodes": {2, shown[0]}, "pods": {3, shown[1]}, "namespaces": {1, shown[2]}, "gates": {1, shown[3]},
		}
		if diff := cmp.Diff(want, readState(t, s, query).Counts); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	for _, query := range []string{"view=secrets", "show=all", "page=-1", "page=x", "q=" +
		strings.Repeat("x", maxFind+1)} {
		if r := get(s, "/ui/state.json?"+query); r.StatusCode != 400 {
			t.Errorf("%.20s: %d", query, r.StatusCode)
		}
	}
}

// However many nodes there are, an answer has one page of them, and pages together have all.
func TestPages(t *testing.T) {
	book := ledger.New()
	for i := range 45 {
		book.SetNode(ledger.Node{Name: string(rune('A' + i)), Devices: []device.Device{
			{UUID: "G", Family: "F", Healthy: true, Capacity: device.Amount{MemoryMiB: 100}},
		}})
	}
	s := newSite(source(book, &extender{}))
	seen := map[string]bool{}
	for page, want := range map[string]int{"0": 20, "1": 20, "2": 5} {
		got := readState(t, s, "page="+page)
		if len(got.Nodes) != want || got.Pages != 3 {
			t.Errorf("page %s: %d nodes of %d pages", page, len(got.Nodes), got.Pages)
		}
		for _, n := range got.Nodes {
			seen[n.Name] = true
		}
		if diff := cmp.Diff([]Total{{Family: "F", Devices: 45, CapacityMiB: 4500, FreeMiB: 4500}},
			got.Totals); diff != "" {
			t.Error(diff)
		}
	}
	if len(seen) != 45 {
		t.Errorf("%d nodes on all pages", len(seen))
	}
	if got := readState(t, s, "page=99"); got.Page != 2 || len(got.Nodes) != 5 {
		t.Errorf("beyond the last page: page %d", got.Page)
	}
}

// The UI is beside the books as JSON, and / leads to it.
func TestHandle(t *testing.T) {
	mux := http.NewServeMux()
	Handle(mux, source(books(t), &extender{}))
	for path, want := range map[string]string{
		"/debug/ledger": `"seen": 41,`, "/ui/": "<!doctype html>", "/ui/state.json": `"release":"per-init"`,
	} {
		if r := get(mux, path); r.StatusCode != 200 || !strings.Contains(read(t, r), want) {
			t.Errorf("%s: %d without %s", path, r.StatusCode, want)
		}
	}
	for _, path := range []string{"/", "/ui"} {
		if r := get(mux, path); r.StatusCode/100 != 3 || r.Header.Get("Location") != "/ui/" {
			t.Errorf("%s: %d to %q", path, r.StatusCode, r.Header.Get("Location"))
		}
	}
}
