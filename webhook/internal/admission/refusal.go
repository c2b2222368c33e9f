package admission

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// class is why a request was refused, as a metric's label: a closed set. A reason of the admission rules is one too.
type class string

const (
	notRefused class = "none"
	byHTTP     class = "http"   // no AdmissionReview could be read
	byRule     class = "rule"   // a review of something else than the creation of a pod
	byObject   class = "object" // the object is no pod
	byQuota    class = "quota"
	byStart    class = "starting" // the namespace's quotas are not known yet
	byPanic    class = "panic"
)

// refusal is a request that was refused: why, and how the API server is to answer its client.
type refusal struct {
	class   class
	code    int32
	message string
}

func (r *refusal) status() *metav1.Status {
	reason := map[int32]metav1.StatusReason{
		http.StatusBadRequest:          metav1.StatusReasonBadRequest,
		http.StatusForbidden:           metav1.StatusReasonForbidden,
		http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
		http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
	}[r.code]
	if reason == "" {
		reason = metav1.StatusReasonInternalError
	}
	return &metav1.Status{Status: metav1.StatusFailure, Code: r.code, Reason: reason, Message: r.message}
}
