// Package auth finds out which device plugin calls, and of which node.
//
// A caller shows the token of a device plugin's pod for this service's audience. The API server reviews it and names
// its service account and the pod and node to which it is bound. Nothing in the token is trusted before.
package auth

import (
	"context"
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

// Claims of a bound token (k8s.io/apiserver, pkg/authentication/serviceaccount).
const (
	podNameKey  = "authentication.kubernetes.io/pod-name"
	podUIDKey   = "authentication.kubernetes.io/pod-uid"
	nodeNameKey = "authentication.kubernetes.io/node-name"
)

// Pods reads a pod consistently.
type Pods interface {
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
}

// Reviewer checks callers. It has no state.
type Reviewer struct {
	Reviews  authenticationclient.TokenReviewInterface
	Pods     Pods
	Audience string
	// The device plugin's service account.
	Namespace, ServiceAccount string
}

// Caller is a device plugin.
type Caller struct {
	Node            string // to which its token is bound
	PodName, PodUID string // its pod, in the device plugin's namespace
}

// Authenticate returns the device plugin to which a request's bearer token belongs. It reads nothing but the token.
// Refusals: Unauthenticated, NotDevicePlugin, NotBound, Unavailable, TooLate.
func (a *Reviewer) Authenticate(ctx context.Context, header http.Header) (Caller, *refit.Refusal) {
	token, ok := bearer(header)
	if !ok {
		return Caller{}, refit.Refuse(refit.Unauthenticated, "a bearer token for audience %s is needed", a.Audience)
	}
	review, err := a.Reviews.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{a.Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return Caller{}, unavailable(ctx, "reviewing the token", err)
	}
	s := &review.Status
	switch account := "system:serviceaccount:" + a.Namespace + ":" + a.ServiceAccount; {
	case !s.Authenticated:
		return Caller{}, refit.Refuse(refit.Unauthenticated, "the API server rejects the token: %s", s.Error)
	case !slices.Contains(s.Audiences, a.Audience):
		return Caller{}, refit.Refuse(refit.Unauthenticated, "the token is for %v, not for audience %s", s.Audiences,
			a.Audience)
	case s.User.Username != account:
		return Caller{}, refit.Refuse(refit.NotDevicePlugin, "%s may not call, only %s", s.User.Username, account)
	}
	claim := func(key string) string {
		if values := s.User.Extra[key]; len(values) == 1 {
			return values[0]
		}
		return ""
	}
	c := Caller{Node: claim(nodeNameKey), PodName: claim(podNameKey), PodUID: claim(podUIDKey)}
	if c.Node == "" || c.PodName == "" || c.PodUID == "" {
		return Caller{}, refit.Refuse(refit.NotBound,
			"the token is not bound to a pod and its node: project it into the device plugin's pod")
	}
	return c, nil
}

// Authorize checks that a caller may ask about a node: its token is bound to that node and its own pod still exists.
// The API server checks the pod too, but caches accepted tokens for seconds.
// Refusals: OtherNode, CallerGone, Unavailable, TooLate.
func (a *Reviewer) Authorize(ctx context.Context, c Caller, node string) *refit.Refusal {
	if node != c.Node {
		return refit.Refuse(refit.OtherNode, "the device plugin of node %s may not ask about node %s", c.Node, node)
	}
	gone := func(what string) *refit.Refusal {
		return refit.Refuse(refit.CallerGone, "the token's pod %s/%s %s", a.Namespace, c.PodName, what)
	}
	pod, err := a.Pods.Pod(ctx, a.Namespace, c.PodName)
	switch {
	case apierrors.IsNotFound(err):
		return gone("is gone")
	case err != nil:
		return unavailable(ctx, "reading the caller's pod", err)
	case string(pod.UID) != c.PodUID:
		return gone("was deleted and created again")
	case pod.Spec.NodeName != node:
		return gone("is on node " + pod.Spec.NodeName + ", not " + node)
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

func unavailable(ctx context.Context, what string, err error) *refit.Refusal {
	reason := refit.Unavailable
	if ctx.Err() != nil {
		reason = refit.TooLate
	}
	return refit.Refuse(reason, "%s: %v", what, err)
}
