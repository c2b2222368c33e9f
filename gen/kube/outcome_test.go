package kube_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/gen/kube"
)

func TestWriteOutcome(t *testing.T) {
	answer := func(code int32, message string) metav1.Status { return metav1.Status{Code: code, Message: message} }
	ofAnother := answer(422, "Invalid value")
	ofAnother.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "metadata.uid"}}}
	otherField := answer(422, "Invalid value")
	otherField.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "spec"}}}
	for _, test := range []struct {
		status metav1.Status
		want   kube.Outcome
	}{
		{answer(0, ""), kube.Unknown},
		{answer(400, ""), kube.Refused},
		{answer(403, ""), kube.Refused},
		{answer(404, ""), kube.Gone},
		{answer(408, ""), kube.Unknown},
		{answer(409, "the object has been modified"), kube.Conflict},
		{answer(409, "etcdserver: request timed out"), kube.Unknown},
		{answer(409, "context deadline exceeded"), kube.Unknown},
		{answer(409, "rpc error: code = Unavailable"), kube.Unknown},
		{answer(409, "connection refused"), kube.Unknown},
		{answer(422, ""), kube.Refused},
		{ofAnother, kube.Gone},
		{otherField, kube.Refused},
		{answer(429, ""), kube.Unknown},
		{answer(500, ""), kube.Unknown},
		{answer(503, ""), kube.Unknown},
		{answer(504, ""), kube.Unknown},
	} {
		err := fmt.Errorf("wrapped: %w", &apierrors.StatusError{ErrStatus: test.status})
		if got := kube.WriteOutcome(err); got != test.want {
			t.Errorf("%+v: outcome %v, want %v", test.status, got, test.want)
		}
	}
	if got := kube.WriteOutcome(errors.New("broken")); got != kube.Unknown {
		t.Errorf("a broken connection: outcome %v", got)
	}
	if got := kube.WriteOutcome(nil); got != kube.Done {
		t.Errorf("no error: outcome %v", got)
	}
}
