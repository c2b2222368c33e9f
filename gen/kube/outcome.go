package kube

import (
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Outcome is what the API server's answer to a write says of the write.
type Outcome int

// The outcomes of a write.
const (
	Unknown  Outcome = iota // it may have been carried out, or may yet be
	Done                    // it was carried out
	Conflict                // it was not: the object was not as the write requires
	Refused                 // it was not, and will not be
	Gone                    // it was not: the object does not exist, or another one has its name
)

// WriteOutcome reads the error of a write.
//
// A write that names a UID which another object has now is answered as invalid. A conflict can also be trouble between
// the API server and its storage, which the binding endpoint reports so (kubernetes/pkg/registry/core/pod/storage,
// assignPod): that write may yet be carried out.
func WriteOutcome(err error) Outcome {
	if err == nil {
		return Done
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return Unknown // the connection broke, or the call took too long
	}
	status := answer.Status()
	switch code := status.Code; {
	case code == 404 || ofAnother(status.Details):
		return Gone
	case code == 409 && !storageTrouble(err):
		return Conflict
	case code == 408 || code == 409 || code == 429 || code >= 500 || code < 400:
		return Unknown
	default:
		return Refused
	}
}

// ofAnother reports whether the name is another object's now.
func ofAnother(d *metav1.StatusDetails) bool {
	isUID := func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" }
	return d != nil && slices.ContainsFunc(d.Causes, isUID)
}

func storageTrouble(err error) bool {
	return slices.ContainsFunc([]string{"etcdserver:", "context ", "rpc error", "connection "},
		func(text string) bool { return strings.Contains(err.Error(), text) })
}

// IsGone reports whether reading a pod by its name showed that the pod with this UID no longer exists.
func IsGone(read *corev1.Pod, err error, uid types.UID) bool {
	return apierrors.IsNotFound(err) || err == nil && read.UID != uid
}

// IsTerminal reports whether a pod has ended: none of its containers runs or will run again.
func IsTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
