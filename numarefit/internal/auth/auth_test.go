package auth

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/phasegpu/phasegpu/gen/refit"
)

const plugin = "system:serviceaccount:phasegpu-system:phasegpu-device-plugin"

// reviews is an API server that knows one token, "good", and says status of it.
type reviews struct {
	authenticationclient.TokenReviewInterface
	status authenticationv1.TokenReviewStatus
	err    error
	asked  []authenticationv1.TokenReviewSpec
}

func (r *reviews) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	r.asked = append(r.asked, review.Spec)
	if r.err != nil {
		return nil, r.err
	}
	answer := review.DeepCopy()
	answer.Status = authenticationv1.TokenReviewStatus{Error: "token has expired"}
	if review.Spec.Token == "good" {
		answer.Status = *r.status.DeepCopy()
	}
	return answer, nil
}

func authenticated() authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{"phasegpu-numarefit"},
		User: authenticationv1.UserInfo{Username: plugin, Extra: map[string]authenticationv1.ExtraValue{
			podNameKey: {"plugin-x"}, podUIDKey: {"uid-x"}, nodeNameKey: {"node"},
		}},
	}
}

func reviewer(r *reviews) *Reviewer {
	return &Reviewer{Reviews: r, Audience: "phasegpu-numarefit", Namespace: "phasegpu-system", ServiceAccount: "phasegpu-device-plugin"}
}

func header(values ...string) http.Header { return http.Header{"Authorization": values} }

// Case 46 and the 8: whom the API server does not know as a device plugin is refused.
func TestAuthenticate(t *testing.T) {
	for _, test := range []struct {
		name    string
		header  http.Header
		status  func(*authenticationv1.TokenReviewStatus)
		err     error
		refused refit.Reason
		asked   int // how often the API server
	}{
		{name: "a device plugin", header: header("Bearer good"), asked: 1},
		{name: "scheme in lower case", header: header("bearer good"), asked: 1},
		{name: "no token", header: http.Header{}, refused: refit.Unauthenticated},
		{name: "an empty token", header: header("Bearer "), refused: refit.Unauthenticated},
		{name: "a password", header: header("Basic good"), refused: refit.Unauthenticated},
		{name: "two tokens", header: header("Bearer good", "Bearer good"), refused: refit.Unauthenticated},
		{name: "a wrong or expired token", header: header("Bearer bad"), refused: refit.Unauthenticated, asked: 1},
		{
			name: "a token for the API server", header: header("Bearer good"), refused: refit.Unauthenticated, asked: 1,
			status: func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"https://kubernetes.default.svc"} },
		},
		{
			name: "no audience", header: header("Bearer good"), refused: refit.Unauthenticated, asked: 1,
			status: func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil },
		},
		{
			name: "another service account", header: header("Bearer good"), refused: refit.NotDevicePlugin, asked: 1,
			status: func(s *authenticationv1.TokenReviewStatus) { s.User.Username = plugin + "2" },
		},
		{
			name: "the same name in another namespace", header: header("Bearer good"), refused: refit.NotDevicePlugin, asked: 1,
			status: func(s *authenticationv1.TokenReviewStatus) {
				s.User.Username = "system:serviceaccount:team:phasegpu-device-plugin"
			},
		},
		{
			name: "not bound to a node", header: header("Bearer good"), refused: refit.NotBound, asked: 1,
			status: func(s *authenticationv1.TokenReviewStatus) { delete(s.User.Extra, nodeNameKey) },
		},
		{
			name: "bound to two nodes", header: header("Bearer good"), refused: refit.NotBound, asked: 1,
			status: func(s *authenticationv1.TokenReviewStatus) { s.User.Extra[nodeNameKey] = []string{"node", "other"} },
		},
		{
			name: "not bound to a pod", header: header("Bearer good"), refused: refit.NotBound, asked: 1,
			status: func(s *authenticationv1.TokenReviewStatus) { delete(s.User.Extra, podUIDKey) },
		},
		{name: "the API server is away", header: header("Bearer good"), err: errors.New("connection refused"), refused: refit.Unavailable, asked: 1},
	} {
		r := &reviews{status: authenticated(), err: test.err}
		if test.status != nil {
			test.status(&r.status)
		}
		caller, refusal := reviewer(r).Authenticate(t.Context(), test.header)
		if got := reasonOf(refusal); got != test.refused || len(r.asked) != test.asked {
			t.Errorf("%s: refused with %q after %d reviews, want %q after %d", test.name, got, len(r.asked), test.refused, test.asked)
		}
		want := Caller{}
		if test.refused == "" {
			want = Caller{Node: "node", PodName: "plugin-x", PodUID: "uid-x"}
			if diff := cmp.Diff([]authenticationv1.TokenReviewSpec{{Token: "good", Audiences: []string{"phasegpu-numarefit"}}}, r.asked); diff != "" {
				t.Errorf("%s: asked %s", test.name, diff)
			}
		}
		if caller != want {
			t.Errorf("%s: caller %+v, want %+v", test.name, caller, want)
		}
		if refusal != nil && strings.Contains(refusal.Message, "good") {
			t.Errorf("%s: the refusal shows the token: %s", test.name, refusal.Message)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, refusal := reviewer(&reviews{err: over.Err()}).Authenticate(over, header("Bearer good")); reasonOf(refusal) != refit.TooLate {
		t.Errorf("time is over: %v", refusal)
	}
}

// Only about the token's own node, and only while the token's pod is there.
func TestAuthorize(t *testing.T) {
	there := func(uid types.UID, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: corev1.PodSpec{NodeName: node}}
	}
	gone := apierrors.NewNotFound(corev1.Resource("pods"), "plugin-x")
	for _, test := range []struct {
		name    string
		node    string
		pod     *corev1.Pod
		err     error
		refused refit.Reason
		reads   int
	}{
		{"its own node", "node", there("uid-x", "node"), nil, "", 1},
		{"another node", "other", there("uid-x", "node"), nil, refit.OtherNode, 0},
		{"its pod is gone", "node", nil, gone, refit.CallerGone, 1},
		{"its pod was replaced", "node", there("uid-y", "node"), nil, refit.CallerGone, 1},
		{"its pod is elsewhere", "node", there("uid-x", "other"), nil, refit.CallerGone, 1},
		{"the API server is away", "node", nil, errors.New("connection refused"), refit.Unavailable, 1},
	} {
		var reads []string
		a := reviewer(nil)
		a.Pod = func(_ context.Context, namespace, name string) (*corev1.Pod, error) {
			reads = append(reads, namespace+"/"+name)
			return test.pod, test.err
		}
		refusal := a.Authorize(t.Context(), Caller{Node: "node", PodName: "plugin-x", PodUID: "uid-x"}, test.node)
		if got := reasonOf(refusal); got != test.refused || len(reads) != test.reads {
			t.Errorf("%s: refused with %q after %v, want %q after %d reads", test.name, got, reads, test.refused, test.reads)
		}
		if len(reads) > 0 && reads[0] != "phasegpu-system/plugin-x" {
			t.Errorf("%s: read %v", test.name, reads)
		}
	}
}

func reasonOf(r *refit.Refusal) refit.Reason {
	if r == nil {
		return ""
	}
	return r.Reason
}
