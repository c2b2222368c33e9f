// Package refitclient calls the refit service.
package refitclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/phasegpu/phasegpu/gen/refit"
)

const (
	maxAnswer  = 1 << 16 // bytes of an answer's body
	maxMessage = 1 << 10 // bytes of a refusal's sentence: it ends up in the pod's status
)

// Client calls one service. It reads the token and the CA at every call, because both change while the plugin runs.
type Client struct {
	URL       string // https://host or https://host:port
	CAFile    string // PEM: who signed the service's certificate
	TokenFile string // of the plugin's service account, for refit.Audience
}

// Check reports what is wrong with the client, without reading its files.
func (c *Client) Check() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return err
	case u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
		u.Fragment != "":
		return fmt.Errorf("%q is not of the form https://host:port", c.URL)
	case c.CAFile == "" || c.TokenFile == "":
		return errors.New("a CA file and a token file are needed")
	}
	return nil
}

// Failure is why there is neither an answer nor a refusal.
type Failure struct {
	Kind Kind
	err  error
}

// Kind is a class of failures, for metrics.
type Kind string

// The kinds of failure.
const (
	Credentials Kind = "Credentials" // the CA or token file
	Unreachable Kind = "Unreachable"
	Certificate Kind = "Certificate" // the service's is not one that the CA signed for its name
	Timeout     Kind = "Timeout"     // the service may have carried out the request
	BadAnswer   Kind = "BadAnswer"   // not from a refit service
)

// Error says what failed.
func (f *Failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.err }

// Ask sends one request and waits for at most refit.Budget. The error is a *refit.Refusal or a *Failure. After a
// failure it is not known whether the record changed.
func (c *Client) Ask(ctx context.Context, question *refit.Request) (*refit.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, refit.Budget)
	defer cancel()
	request, requestErr := c.request(ctx, question)
	client, err := c.http()
	if err := errors.Join(requestErr, err); err != nil {
		return nil, &Failure{Credentials, fmt.Errorf("refit service: %w", err)}
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, failed(ctx, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, failed(ctx, err)
	}
	return read(response.StatusCode, body)
}

func (c *Client) request(ctx context.Context, question *refit.Request) (*http.Request, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("token (--refit-token): %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.URL, "/")+refit.Path,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Content-Type", "application/json")
	return request, nil
}

// http returns a client for one call.
func (c *Client) http() (*http.Client, error) {
	ca, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("CA (--refit-ca): %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("CA (--refit-ca): %s has no certificate in PEM", c.CAFile)
	}
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: maxAnswer,
		},
		// The token is for this service only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func failed(ctx context.Context, err error) *Failure {
	kind := Unreachable
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &Failure{Timeout, fmt.Errorf("the refit service did not answer within %v: %w", refit.Budget, err)}
	case errors.As(err, new(*tls.CertificateVerificationError)):
		kind = Certificate
	}
	return &Failure{kind, fmt.Errorf("refit service: %w", err)}
}

// read returns a response's answer or refusal.
func read(status int, body []byte) (*refit.Answer, error) {
	bad := func(format string, arguments ...any) error {
		return &Failure{BadAnswer, fmt.Errorf("the refit service's answer, HTTP status %d: "+format,
			append([]any{status}, arguments...)...)}
	}
	if len(body) > maxAnswer {
		return nil, bad("it is longer than %d bytes", maxAnswer)
	}
	var r refit.Response
	err := json.Unmarshal(body, &r)
	switch {
	case err != nil:
		return nil, bad("%w", err)
	case status == http.StatusOK && (r.Answer == nil || len(r.Devices) == 0):
		return nil, bad("it names no devices")
	case status == http.StatusOK:
		return r.Answer, nil
	case r.Refusal == nil || r.Reason.Fact().Reason != r.Reason:
		return nil, bad("it has no reason that this version knows")
	}
	r.Message = strings.ToValidUTF8(r.Message[:min(len(r.Message), maxMessage)], "")
	return nil, r.Refusal
}
