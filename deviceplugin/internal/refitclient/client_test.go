package refitclient_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/refitclient"
	"github.com/phasegpu/phasegpu/gen/refit"
)

var question = &refit.Request{
	Pod: refit.Pod{Namespace: "team", Name: "p", UID: "u"}, Node: "n1",
	Container: refit.Container{Name: "app", Position: 2}, Family: "NVIDIA", Allowed: []string{"G1", "G2"},
}

// serve runs a service and returns a client of it.
func serve(t *testing.T, handler http.HandlerFunc) *refitclient.Client {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	c := &refitclient.Client{URL: s.URL + "/", CAFile: filepath.Join(t.TempDir(), "ca.crt"),
		TokenFile: filepath.Join(t.TempDir(), "token")}
	put(t, c.CAFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	put(t, c.TokenFile, "one\n")
	return c
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// other is the certificate of a CA that signed nothing here (valid until 2126).
const other = `-----BEGIN CERTIFICATE-----
MIIBcDCCARWgAwIBAgIUd9pSjnkydbLs3lesnNr9yW1J3R0wCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBeDAgFw0yNjExMzAyMjMyMzFaGA8yMTI2MTEwNjIyMzIzMVow
DDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABK+WHC8gOyOR
f1d9vd1nJ4y4QsfeQtCjvh4gZ8X1FB7YEQyeQOoWKFTgwxMz5rOIuk0OJSfn17Mv
MOZOY3WratWjUzBRMB0GA1UdDgQWBBTfQ4DQmVmxKkV21sGqralxbVvOaTAfBgNV
HSMEGDAWgBTfQ4DQmVmxKkV21sGqralxbVvOaTAPBgNVHRMBAf8EBTADAQH/MAoG
CCqGSM49BAMCA0kAMEYCIQDQcx7mBwfXfbwY/zO4+sQBF4setm2HIUatRK72jj/2
uwIhAIJg1M2B3KLzi4v39LirOx4wYG5qBqAS5jqudKjRA40d
-----END CERTIFICATE-----
`

// The request goes where it should as it should, with the token that is in the file at the time.
func TestAsk(t *testing.T) {
	var seen []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Content-Type"))
		var got refit.Request
		in := json.NewDecoder(r.Body)
		in.DisallowUnknownFields()
		if err := in.Decode(&got); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(question, &got); diff != "" {
			t.Errorf("question (-want +got):\n%s", diff)
		}
		_, _ = io.WriteString(w, `{"devices":["G2"],"moved":true,"later":1}`)
	})
	for _, token := range []string{"one", "two"} {
		put(t, c.TokenFile, token+"\n")
		answer, err := c.Ask(t.Context(), question)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&refit.Answer{Devices: []string{"G2"}, Moved: true}, answer); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	}
	want := []string{"POST /v1/refit Bearer one application/json", "POST /v1/refit Bearer two application/json"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// What no refit service answers is a failure of a kind that metrics can count. A refusal is not a failure.
func TestFailures(t *testing.T) {
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		t.Error("the token went elsewhere")
	}))
	defer elsewhere.Close()
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		spoil   func(*refitclient.Client)
		kind    refitclient.Kind
		refusal refit.Reason
		says    string
	}{
		"a refusal": {handler: says(422, `{"reason":"NoMemory","message":"G1 is full"}`),
			refusal: refit.NoMemory, says: "G1 is full (NoMemory)"},
		"a long refusal": {handler: says(422, `{"reason":"NoMemory","message":"`+strings.Repeat("ü", 5000)+`"}`),
			refusal: refit.NoMemory, says: strings.Repeat("ü", 512) + " (NoMemory)"},
		"an unknown reason": {handler: says(422, `{"reason":"Mood","message":"no"}`), kind: refitclient.BadAnswer,
			says: "HTTP status 422: it has no reason"},
		"another server": {handler: says(404, "404 page not found"), kind: refitclient.BadAnswer,
			says: "HTTP status 404"},
		"success of nothing": {handler: says(200, "{}"), kind: refitclient.BadAnswer, says: "names no devices"},
		"half an answer": {handler: says(200, `{"devices":["G`), kind: refitclient.BadAnswer,
			says: "HTTP status 200"},
		"an endless answer": {handler: says(200, `{"devices":["`+strings.Repeat("x", 1<<20)),
			kind: refitclient.BadAnswer, says: "longer than 65536 bytes"},
		"a redirect": {handler: http.RedirectHandler(elsewhere.URL, http.StatusPermanentRedirect).ServeHTTP,
			kind: refitclient.BadAnswer, says: "HTTP status 308"},
		"no token": {spoil: func(c *refitclient.Client) { c.TokenFile += "x" }, kind: refitclient.Credentials,
			says: "--refit-token"},
		"no CA": {spoil: func(c *refitclient.Client) { c.CAFile += "x" }, kind: refitclient.Credentials,
			says: "--refit-ca"},
		"an empty CA": {spoil: func(c *refitclient.Client) { put(t, c.CAFile, "") },
			kind: refitclient.Credentials, says: "no certificate in PEM"},
		"another CA": {spoil: func(c *refitclient.Client) { put(t, c.CAFile, other) },
			kind: refitclient.Certificate, says: "unknown authority"},
		"another name": {spoil: func(c *refitclient.Client) {
			c.URL = strings.Replace(c.URL, "127.0.0.1",
				"localhost", 1)
		}, kind: refitclient.Certificate, says: "not localhost"},
		"nobody listens": {spoil: func(c *refitclient.Client) { c.URL = "https://127.0.0.1:1" },
			kind: refitclient.Unreachable, says: "connection refused"},
		"hung up": {handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			kind: refitclient.Unreachable, says: "EOF"},
		"hung up in the body": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = io.WriteString(w, "{")
		}, kind: refitclient.Unreachable, says: "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, test.handler)
			if test.spoil != nil {
				test.spoil(c)
			}
			answer, err := c.Ask(t.Context(), question)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("answer %v, error %v; want one that says %q", answer, err, test.says)
			}
			var kind refitclient.Kind
			if f := (*refitclient.Failure)(nil); errors.As(err, &f) {
				kind = f.Kind
			}
			var reason refit.Reason
			if r := (*refit.Refusal)(nil); errors.As(err, &r) {
				reason = r.Reason
			}
			if kind != test.kind || reason != test.refusal {
				t.Errorf("kind %q, reason %q; want %q, %q", kind, reason, test.kind, test.refusal)
			}
		})
	}
}

// A service that answers nothing, or trickles, costs the budget and no more. A caller that goes away waits for nothing.
func TestBudget(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not look whether the client is there
			<-r.Context().Done()
		},
		"trickles": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				w.(http.Flusher).Flush()
				<-tick.C
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, handler)
			start := time.Now()
			_, err := c.Ask(t.Context(), question)
			took := time.Since(start)
			if f := (*refitclient.Failure)(nil); !errors.As(err, &f) || f.Kind != refitclient.Timeout ||
				took < refit.Budget || took > refit.Budget+3*time.Second {
				t.Errorf("error %v after %v, want a timeout after %v", err, took, refit.Budget)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.Ask(ctx, question); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want that the caller has gone", err)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://phasegpu-numarefit.phasegpu-system.svc": true, "https://10.0.0.1:8443/": true,
		"http://host": false, "https://": false, "host:443": false, "https://host/v1/refit": false,
		"https://host?x": false, "https://u:p@host": false, "https://h%": false, "": false,
	} {
		if err := (&refitclient.Client{URL: url, CAFile: "ca", TokenFile: "token"}).Check(); (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, c := range []refitclient.Client{{URL: "https://host", CAFile: "ca"},
		{URL: "https://host", TokenFile: "token"}} {
		if c.Check() == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}
