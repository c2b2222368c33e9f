// Package auth tells who asks, and for which node.
//
// A caller shows the token of a device plugin's pod, made by its kubelet for this service's audience. The
// API server says of a token whose it is and to which pod and node it is bound; nothing in the token is
// believed before.
package auth

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/phasegpu/phasegpu/gen/refit"
)

// What the API server says of a bound token (k8s.io/apiserver, pkg/authentication/serviceaccount).
const (
	podNameKey  = "authentication.kubernetes.io/pod-name"
	podUIDKey   = "authentication.kubernetes.io/pod-uid"
	nodeNameKey = "authentication.kubernetes.io/node-name"
)

// Reviewer checks callers. It has no state.
type Reviewer struct {
	Reviews  authenticationclient.TokenReviewInterface
	Pod      func(ctx context.Context, namespace, name string) (*corev1.Pod, error) // read consistently
	Audience string
	// The device plugin's service account.
	Namespace, ServiceAccount string
}

// Caller is a device plugin.
type Caller struct {
	Node            string // to which its token is bound
	PodName, PodUID string // it itself, in the device plugin's namespace
}

// Authenticate tells which device plugin a request's bearer token stands for. Nothing but the token is
// looked at. Refusals: Unauthenticated, NotDevicePlugin, NotBound, Unavailable, TooLate.
func (a *Reviewer) Authenticate(ctx context.Context, header http.Header) (Caller, *refit.Refusal) {
	token, ok := bearer(header)
	if !ok {
		return Caller{}, refuse(refit.Unauthenticated, "a bearer token for audience %s is needed", a.Audience)
	}
	review, err := a.Reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{a.Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return Caller{}, unavailable(ctx, "the API server did not review the token", err)
	}
	s := &review.Status
	switch account := "system:serviceaccount:" + a.Namespace + ":" + a.ServiceAccount; {
	case !s.Authenticated:
		return Caller{}, refuse(refit.Unauthenticated, "the API server does not accept the token: %s", s.Error)
	case !slices.Contains(s.Audiences, a.Audience):
		return Caller{}, refuse(refit.Unauthenticated, "the token is for %v, not for audience %s", s.Audiences, a.Audience)
	case s.User.Username != account:
		return Caller{}, refuse(refit.NotDevicePlugin, "%s may not ask, only %s", s.User.Username, account)
	}
	c := Caller{Node: one(s.User.Extra[nodeNameKey]), PodName: one(s.User.Extra[podNameKey]), PodUID: one(s.User.Extra[podUIDKey])}
	if c.Node == "" || c.PodName == "" || c.PodUID == "" {
		return Caller{}, refuse(refit.NotBound, "the token is not bound to a pod and its node: project it into the device plugin's pod")
	}
	return c, nil
}

// Authorize reports whether a caller may ask about a node: the one its token is bound to, while its own
// pod is there. The API server checks the pod too, but remembers a token that it accepted for seconds.
// Refusals: OtherNode, CallerGone, Unavailable, TooLate.
func (a *Reviewer) Authorize(ctx context.Context, c Caller, node string) *refit.Refusal {
	if node != c.Node {
		return refuse(refit.OtherNode, "the device plugin of node %s may not ask about node %s", c.Node, node)
	}
	pod, err := a.Pod(ctx, a.Namespace, c.PodName)
	switch {
	case apierrors.IsNotFound(err):
		return refuse(refit.CallerGone, "pod %s/%s, to which the token is bound, is gone", a.Namespace, c.PodName)
	case err != nil:
		return unavailable(ctx, "the API server did not say whether the caller's pod is there", err)
	case string(pod.UID) != c.PodUID:
		return refuse(refit.CallerGone, "pod %s/%s, to which the token is bound, was deleted and created again", a.Namespace, c.PodName)
	case pod.Spec.NodeName != node:
		return refuse(refit.CallerGone, "pod %s/%s, to which the token is bound, is on node %s, not %s", a.Namespace, c.PodName, pod.Spec.NodeName, node)
	}
	return nil
}

// bearer returns the token of a request that has exactly one.
func bearer(header http.Header) (token string, ok bool) {
	values := header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// one returns the value of what has exactly one.
func one(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

func refuse(reason refit.Reason, format string, arguments ...any) *refit.Refusal {
	return &refit.Refusal{Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}

func unavailable(ctx context.Context, what string, err error) *refit.Refusal {
	if ctx.Err() != nil {
		return refuse(refit.TooLate, "%s in time: %v", what, err)
	}
	return refuse(refit.Unavailable, "%s: %v", what, err)
}
