// Package server answers requests for refits over HTTPS.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	kjson "sigs.k8s.io/json"

	"github.com/phasegpu/phasegpu/gen/process"
	"github.com/phasegpu/phasegpu/gen/refit"
	"github.com/phasegpu/phasegpu/numarefit/internal/auth"
	"github.com/phasegpu/phasegpu/numarefit/internal/decide"
)

// maxQuoted bounds what an event quotes: the API server refuses notes of more than 1024 bytes.
const maxQuoted = 800

// Handler answers POST /v1/refit, and refuses everything else.
type Handler struct {
	Auth    *auth.Reviewer
	Decider *decide.Decider
	Events  events.EventRecorder
	Metrics *Metrics
	Log     *zap.Logger
	// Budget is how long a request may take until it is decided. Finding the outcome of a write comes on top.
	Budget time.Duration
}

// Server returns the server of this handler on a listener.
func (h *Handler) Server(l net.Listener, certificate *process.Certificate) process.Server {
	counted := sniffing{l, func() { h.Metrics.count(refused, refit.PlainHTTP) }}
	return process.Server{
		Name: "refit", Listener: counted, Handler: h, TLS: certificate.TLS(), Read: 2 * refit.Budget,
		Write: 4 * refit.Budget,
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), h.Budget)
	defer cancel()
	var q *refit.Request
	var response refit.Response
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error("panic", zap.Any("panic", p), zap.Stack("stack"))
			response = refit.Response{Refusal: refit.Refuse(refit.Internal, "internal error: see the service's log")}
		}
		h.answer(w, q, response, time.Since(start))
	}()
	q, response = h.refit(ctx, w, r)
}

// refit authenticates, reads the body, authorises and decides. Each step reads only what it needs. The request is nil
// if there is none to read.
func (h *Handler) refit(ctx context.Context, w http.ResponseWriter, r *http.Request) (*refit.Request, refit.Response) {
	if r.URL.Path != refit.Path || r.Method != http.MethodPost {
		return nil, refit.Response{Refusal: refit.Refuse(refit.BadRequest, "only POST %s is served", refit.Path)}
	}
	caller, refusal := h.Auth.Authenticate(ctx, r.Header)
	if refusal != nil {
		return nil, refit.Response{Refusal: refusal}
	}
	q, refusal := read(w, r)
	if refusal != nil {
		return nil, refit.Response{Refusal: refusal}
	}
	if refusal = h.Auth.Authorize(ctx, caller, q.Node); refusal != nil {
		return q, refit.Response{Refusal: refusal}
	}
	o := h.Decider.Refit(ctx, q)
	h.record(q, o)
	return q, o.Response
}

// record writes an event on the pod, unless it does not exist or its recorded devices were allowed.
func (h *Handler) record(q *refit.Request, o decide.Outcome) {
	const action = "Refit"
	switch {
	case o.Pod == nil:
	case o.Refusal != nil:
		h.Events.Eventf(o.Pod, nil, corev1.EventTypeWarning, "RefitRefused", action, "%s: %s",
			o.Refusal.Reason, short(o.Refusal.Message))
	case o.Moved:
		h.Events.Eventf(o.Pod, nil, corev1.EventTypeNormal, "Refitted", action,
			"container %s has devices %s now, as kubelet's Topology Manager allows",
			q.Container.Name, short(strings.Join(o.Devices, ",")))
	}
}

func short(text string) string {
	if len(text) > maxQuoted {
		return strings.ToValidUTF8(text[:maxQuoted], "") + "…"
	}
	return text
}

// answer writes, logs and counts a response.
func (h *Handler) answer(w http.ResponseWriter, q *refit.Request, response refit.Response, took time.Duration) {
	result, reason, status := kept, refit.Reason(""), http.StatusOK
	fields := []zap.Field{zap.Duration("took", took)}
	if q != nil {
		fields = append(fields, zap.String("pod", q.Pod.Namespace+"/"+q.Pod.Name), zap.String("uid", q.Pod.UID),
			zap.String("container", q.Container.Name), zap.String("node", q.Node), zap.Strings("allowed", q.Allowed))
	}
	switch {
	case response.Refusal != nil:
		result, reason, status = refused, response.Reason, response.Reason.Fact().Status
		fields = append(fields, zap.String("reason", string(reason)), zap.String("message", response.Message))
	case response.Moved:
		result = moved
		fallthrough
	default:
		fields = append(fields, zap.String("devices", strings.Join(response.Devices, ",")))
	}
	h.Metrics.observe(result, reason, took)
	h.Log.Info(string(result), fields...)
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(response) // the client may be gone
}

// read returns the request in a body of at most refit.MaxBody bytes. Refusals: BadRequest, TooLarge.
func read(w http.ResponseWriter, r *http.Request) (*refit.Request, *refit.Refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, refit.MaxBody))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, refit.Refuse(refit.TooLarge, "the body is larger than %d bytes", refit.MaxBody)
	case err != nil:
		return nil, refit.Refuse(refit.BadRequest, "reading the body: %v", err)
	}
	q, err := decode(body)
	if err != nil {
		return nil, refit.Refuse(refit.BadRequest, "the body is no refit request: %v", err)
	}
	return q, nil
}

// decode reads a request: one JSON object with the fields of refit.Request, each at most once and spelled exactly so,
// within its bounds.
func decode(body []byte) (*refit.Request, error) {
	q := new(refit.Request)
	strict, err := kjson.UnmarshalStrict(body, q)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err == nil {
		err = q.Check()
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}
