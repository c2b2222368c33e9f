// Package server answers kube-scheduler's calls over HTTP.
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

// Calls are what kube-scheduler calls. Failures are in the results, as its contract has it. But Preempt's has no place
// for them: an error without a result means invalid arguments, one beside a result is only logged and counted.
type Calls struct {
	Readiness
	Filterer
	Preempter
	Binder
}

// Readiness explains why no call can be answered yet.
type Readiness interface{ Ready() error }

// Filterer tells on which nodes a pod fits, and how well.
type Filterer interface {
	Filter(context.Context, *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult
	Prioritize(context.Context, *extenderv1.ExtenderArgs) (extenderv1.HostPriorityList, error)
}

// Preempter tells where victims are enough.
type Preempter interface {
	Preempt(context.Context, *extenderv1.ExtenderPreemptionArgs) (*extenderv1.ExtenderPreemptionResult, error)
}

// Binder binds a pod.
type Binder interface {
	Bind(context.Context, *extenderv1.ExtenderBindingArgs) error
}

// Metrics counts calls.
type Metrics interface {
	Request(verb, result string, d time.Duration)
}

// Extender returns the handler of /filter, /prioritize, /preempt and /bind.
func Extender(c Calls, m Metrics, log *zap.Logger) http.Handler {
	mux := http.NewServeMux()
	handle(mux, m, log, "filter", func(ctx context.Context, args *extenderv1.ExtenderArgs) (any, error) {
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
	})
	// Prioritize has no Error of its own; kube-scheduler takes no scores for equal ones.
	handle(mux, m, log, "prioritize", func(ctx context.Context, args *extenderv1.ExtenderArgs) (any, error) {
		scores, err := c.Prioritize(ctx, args)
		if err != nil {
			scores = extenderv1.HostPriorityList{}
		}
		return scores, err
	})
	handle(mux, m, log, "preempt", func(ctx context.Context, args *extenderv1.ExtenderPreemptionArgs) (any, error) {
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
	})
	handle(mux, m, log, "bind", func(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (any, error) {
		err := c.Ready()
		if err == nil {
			err = c.Bind(ctx, args)
		}
		if err != nil {
			return &extenderv1.ExtenderBindingResult{Error: err.Error()}, err
		}
		return &extenderv1.ExtenderBindingResult{}, nil
	})
	return mux
}

// errNoNode is a result without nodes: of Filter and Preempt that is no failure.
var errNoNode = errors.New("no node fits")

// failure is the status of an answer that is its error as text.
type failure int

// answer is what a call is answered and counted by.
type answer struct {
	outcome string
	status  int
	body    []byte // text unless status is 200
}

func handle[A any](mux *http.ServeMux, m Metrics, log *zap.Logger, verb string,
	call func(context.Context, *A) (any, error)) {
	log = log.With(zap.String("verb", verb))
	mux.HandleFunc("POST /"+verb, func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		a := respond(w, r, log, call)
		m.Request(verb, a.outcome, time.Since(start))
		if a.status != http.StatusOK {
			http.Error(w, string(a.body), a.status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// Without its length a long answer is chunked, and kube-scheduler, which reads to the end of the JSON and no
		// further, would have to open a new connection for the next call.
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
		_, _ = w.Write(a.body) // the client may be gone
	})
}

// respond reads arguments of one type and calls. Bodies that cannot be read are answered 400 or 413 with the reason as
// text: the caller is not a kube-scheduler, or another version of it.
func respond[A any](w http.ResponseWriter, r *http.Request, log *zap.Logger,
	call func(context.Context, *A) (any, error)) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("panic", zap.Any("panic", p), zap.Stack("stack"))
			a = answer{"panic", http.StatusInternalServerError, []byte("internal error")}
		}
	}()
	args := new(A)
	if status, err := read(w, r, args); err != nil {
		log.Warn("bad request", zap.Error(err))
		return answer{"bad_request", status, []byte(err.Error())}
	}
	result, err := call(r.Context(), args)
	a = answer{"ok", http.StatusOK, nil}
	status, failed := result.(failure)
	switch {
	case errors.Is(err, errNoNode):
		a.outcome = "refused"
	case status == http.StatusBadRequest:
		a.outcome = "bad_request"
	case err != nil:
		a.outcome = "error"
	}
	if err != nil && a.outcome != "refused" {
		log.Info("request failed", zap.Error(err))
	}
	if failed {
		a.status, a.body = int(status), []byte(err.Error())
	} else if a.body, err = encode(result); err != nil {
		a = answer{"error", http.StatusInternalServerError, []byte(err.Error())}
	}
	return a
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
		return http.StatusBadRequest,
			fmt.Errorf("the body is not the JSON of k8s.io/kube-scheduler/extender/v1: %w", err)
	}
	return http.StatusOK, nil
}
