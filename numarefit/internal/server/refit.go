package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/gen/refit"
	"github.com/phasegpu/phasegpu/numarefit/internal/auth"
	"github.com/phasegpu/phasegpu/numarefit/internal/decide"
)

// Handler answers POST /v1/refit, and refuses everything else.
type Handler struct {
	Auth    *auth.Reviewer
	Decider *decide.Decider
	// Tell says on a pod what became of it, or why nothing did.
	Tell    func(*refit.Request, decide.Outcome)
	Metrics *Metrics
	Log     *zap.Logger
	// Budget is how long a question may take until it is decided; what became of a write is asked beyond.
	Budget time.Duration
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), h.Budget)
	defer cancel()
	var q *refit.Request
	var o decide.Outcome
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error("panic", zap.Any("panic", p), zap.Stack("stack"))
			o = decide.Outcome{Refusal: refuse(refit.Internal, "internal error: the service's log says which")}
		}
		h.answer(w, q, o, time.Since(start))
	}()
	q, o = h.refit(ctx, w, r)
}

// refit authenticates, reads, authorises and decides: what the next step needs is not read before. The
// question is nil when none was read.
func (h *Handler) refit(ctx context.Context, w http.ResponseWriter, r *http.Request) (*refit.Request, decide.Outcome) {
	if r.URL.Path != refit.Path || r.Method != http.MethodPost {
		return nil, decide.Outcome{Refusal: refuse(refit.BadRequest, "only POST %s is served", refit.Path)}
	}
	caller, refusal := h.Auth.Authenticate(ctx, r.Header)
	if refusal != nil {
		return nil, decide.Outcome{Refusal: refusal}
	}
	q, refusal := read(w, r)
	if refusal != nil {
		return nil, decide.Outcome{Refusal: refusal}
	}
	if refusal = h.Auth.Authorize(ctx, caller, q.Node); refusal != nil {
		return q, decide.Outcome{Refusal: refusal}
	}
	o := h.Decider.Refit(ctx, q)
	h.Tell(q, o)
	return q, o
}

// answer writes, logs and counts.
func (h *Handler) answer(w http.ResponseWriter, q *refit.Request, o decide.Outcome, took time.Duration) {
	fields := []zap.Field{zap.Duration("took", took)}
	if q != nil {
		fields = append(fields, zap.String("pod", q.Pod.Namespace+"/"+q.Pod.Name), zap.String("uid", q.Pod.UID),
			zap.String("container", q.Container.Name), zap.String("node", q.Node), zap.Strings("allowed", q.Allowed))
	}
	if o.Refusal != nil {
		h.Metrics.observe(refused, o.Refusal.Reason, took)
		h.Log.Info("refused", append(fields, zap.String("reason", string(o.Refusal.Reason)), zap.String("message", o.Refusal.Message))...)
		status := o.Refusal.Reason.Fact().Status
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		write(w, status, o.Refusal)
		return
	}
	became := kept
	if o.Answer.Moved {
		became = moved
	}
	h.Metrics.observe(became, "", took)
	h.Log.Info(string(became), append(fields, zap.String("devices", strings.Join(o.Answer.Devices, ",")))...)
	write(w, http.StatusOK, o.Answer)
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
