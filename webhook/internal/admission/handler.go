// Package admission answers the API server's admission reviews of new pods: it sets defaults, refuses what could not be
// accounted for, and removes records that users may not write.
package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// maxBody bounds a request. The API server accepts objects of up to 3 MiB (etcd less); an AdmissionReview has at most
// two, the object and the old object, and 1 MiB is plenty for the rest.
const maxBody = 7 << 20

// maxWarnings bounds the warnings for one pod: the API server accepts 4 KiB of them.
const maxWarnings = 8

// Handler answers AdmissionReviews over HTTP. It has no side effects, so a dry run is like any other request.
type Handler struct {
	Policy  Policy
	Metrics *Metrics
	Log     *zap.Logger
}

// ServeHTTP answers an AdmissionReview with an AdmissionReview, and anything else with an HTTP error that says why.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	review, code, err := read(w, r)
	if err != nil {
		h.Log.Warn("request refused", zap.Int("code", code), zap.String("from", r.RemoteAddr), zap.Error(err))
		http.Error(w, err.Error(), code)
		h.Metrics.observe(failed, byHTTP, time.Since(start))
		return
	}
	ops, warnings, refused := h.decide(review)
	answer, err := encode(review, ops, warnings, refused)
	if err != nil { // strings and numbers always encode
		http.Error(w, err.Error(), http.StatusInternalServerError)
		h.Metrics.observe(failed, byPanic, time.Since(start))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(answer); err != nil {
		h.Log.Warn("the API server did not take the answer", zap.Error(err))
	}
	h.count(review.Request, ops, refused, time.Since(start))
}

// read returns the AdmissionReview in a request, or an error and the HTTP status to answer with.
func read(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionReview, int, error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, http.StatusUnsupportedMediaType,
			fmt.Errorf("content type is %q: send application/json", r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the body is larger than %d bytes", maxBody)
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("reading the body: %w", err)
	}
	review := &admissionv1.AdmissionReview{}
	if err := kjson.Unmarshal(body, review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("the body is no AdmissionReview: %w", err)
	}
	if gvk := review.GroupVersionKind(); gvk.Group != admissionv1.GroupName || gvk.Kind != "AdmissionReview" {
		return nil, http.StatusBadRequest, fmt.Errorf("the body is %s %s: send an AdmissionReview of %s",
			review.APIVersion, review.Kind, admissionv1.SchemeGroupVersion)
	}
	if review.Request == nil || review.Request.UID == "" {
		return nil, http.StatusBadRequest, errors.New("the AdmissionReview has no request with a uid")
	}
	return review, 0, nil
}

// decide returns the patch that admits an object, or the refusal, and in either case warnings. It never panics, so that
// the review is always answered.
func (h *Handler) decide(review *admissionv1.AdmissionReview) (ops []operation, warnings []string, refused *refusal) {
	request := review.Request
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error("panic while deciding on a pod", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()),
				zap.String("namespace", request.Namespace), zap.String("name", request.Name))
			ops, warnings = nil, nil
			message := fmt.Sprintf("phasegpu-webhook failed on this pod, see its log: %v", p)
			refused = &refusal{byPanic, http.StatusInternalServerError, message}
		}
	}()
	if refused := wrongRule(review); refused != nil {
		return nil, nil, refused
	}
	pod := &corev1.Pod{}
	if err := kjson.Unmarshal(request.Object.Raw, pod); err != nil {
		return nil, nil, &refusal{byObject, http.StatusBadRequest, fmt.Sprintf("request.object is no pod: %v", err)}
	}
	pod.Namespace = request.Namespace // the object's own may be empty
	ops, warnings, refused = h.Policy.admit(pod, request.UserInfo)
	return ops, warnings[:min(len(warnings), maxWarnings)], refused
}

// wrongRule refuses what a wrong rule in the webhook configuration sends.
func wrongRule(review *admissionv1.AdmissionReview) *refusal {
	request := review.Request
	resource := request.Resource.Resource
	if request.SubResource != "" {
		resource += "/" + request.SubResource
	}
	var got string
	switch {
	case review.APIVersion != admissionv1.SchemeGroupVersion.String():
		got = "AdmissionReview " + review.APIVersion + ": set its admissionReviewVersions to [v1]"
	case request.Resource != metav1.GroupVersionResource{Version: "v1", Resource: "pods"} || request.SubResource != "",
		request.Kind != metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		request.Operation != admissionv1.Create:
		version := metav1.GroupVersion{Group: request.Resource.Group, Version: request.Resource.Version}
		got = fmt.Sprintf("%s of %s %s (kind %s): set its rules to operation CREATE of v1 pods",
			request.Operation, version, resource, request.Kind.Kind)
	default:
		return nil
	}
	return &refusal{byRule, http.StatusBadRequest, "the MutatingWebhookConfiguration of phasegpu-webhook sends " + got}
}

// encode encodes the answer in the version of the review.
func encode(review *admissionv1.AdmissionReview, ops []operation, warnings []string, refused *refusal) ([]byte, error) {
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: refused == nil, Warnings: warnings}
	if refused != nil {
		response.Result = refused.status()
	} else if len(ops) > 0 {
		patch, err := json.Marshal(ops)
		if err != nil {
			return nil, fmt.Errorf("encoding the patch: %w", err)
		}
		jsonPatch := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = patch, &jsonPatch
	}
	return json.Marshal(&admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
}

// count logs an answer, once, and counts it.
func (h *Handler) count(request *admissionv1.AdmissionRequest, ops []operation, refused *refusal, took time.Duration) {
	r, c := allowed, notRefused
	by := []zap.Field{
		zap.String("namespace", request.Namespace), zap.String("user", request.UserInfo.Username),
		zap.Duration("took", took),
	}
	switch {
	case refused != nil:
		r, c = denied, refused.class
		if c == byRule {
			r = failed
		}
		h.Log.Info("refused", append(by, zap.String("reason", string(c)), zap.String("message", refused.message))...)
	case len(ops) > 0:
		r = patched
		h.Log.Debug("admitted", append(by, zap.Any("patch", ops))...)
	}
	h.Metrics.observe(r, c, took)
}
