package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	kjson "sigs.k8s.io/json"

	"github.com/phasegpu/phasegpu/gen/refit"
)

// read returns the question in a body of at most refit.MaxBody bytes. Refusals: BadRequest, TooLarge.
func read(w http.ResponseWriter, r *http.Request) (*refit.Request, *refit.Refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, refit.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, refuse(refit.TooLarge, "the body is larger than %d bytes", refit.MaxBody)
	case err != nil:
		return nil, refuse(refit.BadRequest, "reading the body: %v", err)
	}
	q, err := decode(body)
	if err != nil {
		return nil, refuse(refit.BadRequest, "the body is no question for a refit: %v", err)
	}
	return q, nil
}

// decode reads a question: one JSON object with the fields of refit.Request, each at most once and
// spelled exactly so, within its bounds.
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

func refuse(reason refit.Reason, format string, arguments ...any) *refit.Refusal {
	return &refit.Refusal{Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}
