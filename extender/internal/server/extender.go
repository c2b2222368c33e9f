// Package server serves the extender: kube-scheduler's calls on one listener, health, metrics and the books
// on another.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// MaxBody bounds a request. The largest is a Filter with the names of all nodes: 64 KiB nodes with names
// of 63 bytes are 4 MiB, and a pod is at most 1.5 MiB (etcd's limit).
const MaxBody = 8 << 20

// promised is how much of a body is made room for before it comes: a caller can promise much and send nothing.
const promised = 1 << 20

// Calls are what kube-scheduler asks for. Failures are in the results, as its contract has it; but Preempt's has no
// place for them: an error without a result is of the arguments, one beside a result is only logged and counted.
type Calls struct {
	Ready      func() error // why nothing can be answered yet
	Filter     func(context.Context, *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult
	Prioritize func(context.Context, *extenderv1.ExtenderArgs) (extenderv1.HostPriorityList, error)
	Preempt    func(context.Context, *extenderv1.ExtenderPreemptionArgs) (*extenderv1.ExtenderPreemptionResult, error)
	Bind       func(context.Context, *extenderv1.ExtenderBindingArgs) error
}

// Extender returns the handler of /filter, /prioritize, /preempt and /bind.
func Extender(c Calls, m *Metrics, log *zap.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /filter", call(m, log, "filter", func(ctx context.Context, args *extenderv1.ExtenderArgs) (any, error) {
		if err := c.Ready(); err != nil {
			return &extenderv1.ExtenderFilterResult{Error: err.Error()}, err
		}
		result := c.Filter(ctx, args)
		if result.Error != "" {
			return result, errors.New(result.Error)
		}
		if len(*result.NodeNames) == 0 {
			return result, errNoNode
		}
		return result, nil
	}))
	// Prioritize has no Error of its own; kube-scheduler takes no scores for equal ones.
	mux.Handle("POST /prioritize", call(m, log, "prioritize", func(ctx context.Context, args *extenderv1.ExtenderArgs) (any, error) {
		scores, err := c.Prioritize(ctx, args)
		if err != nil {
			scores = extenderv1.HostPriorityList{}
		}
		return scores, err
	}))
	mux.Handle("POST /preempt", call(m, log, "preempt", func(ctx context.Context, args *extenderv1.ExtenderPreemptionArgs) (any, error) {
		if err := c.Ready(); err != nil {
			return failure(http.StatusServiceUnavailable), err
		}
		result, err := c.Preempt(ctx, args)
		switch {
		case result == nil:
			return failure(http.StatusBadRequest), err
		case err == nil && len(result.NodeNameToMetaVictims) == 0:
			err = errNoNode
		}
		return result, err
	}))
	mux.Handle("POST /bind", call(m, log, "bind", func(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (any, error) {
		err := c.Ready()
		if err == nil {
			err = c.Bind(ctx, args)
		}
		if err != nil {
			return &extenderv1.ExtenderBindingResult{Error: err.Error()}, err
		}
		return &extenderv1.ExtenderBindingResult{}, nil
	}))
	return mux
}

// errNoNode is the common end of a Filter, which is no failure, and of a Preempt.
var errNoNode = errors.New("no node fits")

// failure is the status of an answer that is its error as text.
type failure int

// call reads arguments of one type and writes the result. Bodies that cannot be read are answered 400 or
// 413 with the reason as text: the caller is not a kube-scheduler, or another version of it.
func call[A any](m *Metrics, log *zap.Logger, verb string, do func(context.Context, *A) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		defer func() {
			if p := recover(); p != nil {
				m.observe(verb, "panic", start)
				log.Error("panic", zap.String("verb", verb), zap.Any("panic", p), zap.Stack("stack"))
				http.Error(w, "internal error", http.StatusInternalServerError)
			}
		}()
		args := new(A)
		if status, err := read(w, r, args); err != nil {
			m.observe(verb, "bad_request", start)
			log.Warn("bad request", zap.String("verb", verb), zap.Error(err))
			http.Error(w, err.Error(), status)
			return
		}
		result, err := do(r.Context(), args)
		if status, ok := result.(failure); ok {
			outcome := "error"
			if status == http.StatusBadRequest {
				outcome = "bad_request"
			}
			m.observe(verb, outcome, start)
			log.Warn("request failed", zap.String("verb", verb), zap.Error(err))
			http.Error(w, err.Error(), int(status))
			return
		}
		body, encodeErr := encode(result)
		if encodeErr != nil {
			m.observe(verb, "error", start)
			http.Error(w, encodeErr.Error(), http.StatusInternalServerError)
			return
		}
		switch {
		case err == nil:
			m.observe(verb, "ok", start)
		case errors.Is(err, errNoNode):
			m.observe(verb, "refused", start)
		default:
			m.observe(verb, "error", start)
			log.Info("request failed", zap.String("verb", verb), zap.Error(err))
		}
		w.Header().Set("Content-Type", "application/json")
		// Without its length a long answer is chunked, and kube-scheduler, which reads to the end of the JSON and no
		// further, would have to open a new connection for the next call.
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // the client may be gone
	})
}

func read(w http.ResponseWriter, r *http.Request, into any) (status int, err error) {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
			return http.StatusUnsupportedMediaType, fmt.Errorf("content type %q: send application/json", kind)
		}
	}
	// All of it in one piece: it is as long as a list of all nodes, and growing to that costs several times as much.
	body := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 0), promised)+bytes.MinRead))
	_, err = body.ReadFrom(http.MaxBytesReader(w, r.Body, MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, fmt.Errorf("the body is larger than %d bytes", MaxBody)
	case err != nil:
		return http.StatusBadRequest, fmt.Errorf("reading the body: %w", err)
	}
	if err := decode(body.Bytes(), into); err != nil {
		return http.StatusBadRequest, fmt.Errorf("the body is not the JSON of k8s.io/kube-scheduler/extender/v1: %w", err)
	}
	return http.StatusOK, nil
}
