package auth

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/gen/refit"
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
	"github.com/phasegpu/phasegpu/numarefit/internal/fakeapi"
)

const account = "system:serviceaccount:phasegpu-node:phasegpu-device-plugin"

func reviewer(api *fakeapi.API) *Reviewer {
	return &Reviewer{
		Reviews: api, Pods: api,
		Audience: "phasegpu-numarefit", Namespace: "phasegpu-node", ServiceAccount: "phasegpu-device-plugin",
	}
}

func header(values ...string) http.Header { return http.Header{"Authorization": values} }

// A caller that the API server does not know as a device plugin is refused.
func TestAuthenticate(t *testing.T) {
	type status = authenticationv1.TokenReviewStatus
	good, errAway := header("Bearer good"), errors.New("connection refused")
	for _, test := range []struct {
		name    string
		header  http.Header
		status  func(*status)
		err     error
		refused refit.Reason
		asked   int // calls of the API server
	}{
		{name: "a device plugin", header: good, asked: 1},
		{name: "scheme in lower case", header: header("bearer good"), asked: 1},
		{name: "no token", header: http.Header{}, refused: refit.Unauthenticated},
		{name: "an empty token", header: header("Bearer "), refused: refit.Unauthenticated},
		{name: "a password", header: header("Basic good"), refused: refit.Unauthenticated},
		{name: "two tokens", header: header("Bearer good", "Bearer good"), refused: refit.Unauthenticated},
		{name: "a wrong or expired token", header: header("Bearer bad"), refused: refit.Unauthenticated, asked: 1},
		{name: "a token for the API server", header: good, refused: refit.Unauthenticated, asked: 1,
			status: func(s *status) { s.Audiences = []string{"https://kubernetes.default.svc"} }},
		{name: "no audience", header: good, refused: refit.Unauthenticated, asked: 1,
			status: func(s *status) { s.Audiences = nil }},
		{name: "another service account", header: good, refused: refit.NotDevicePlugin, asked: 1,
			status: func(s *status) { s.User.Username = account + "2" }},
		{name: "the same name in another namespace", header: good, refused: refit.NotDevicePlugin, asked: 1,
			status: func(s *status) { s.User.Username = "system:serviceaccount:team:phasegpu-device-plugin" }},
		{name: "not bound to a node", header: good, refused: refit.NotBound, asked: 1,
			status: func(s *status) { delete(s.User.Extra, nodeNameKey) }},
		{name: "bound to two nodes", header: good, refused: refit.NotBound, asked: 1,
			status: func(s *status) { s.User.Extra[nodeNameKey] = []string{"node", "other"} }},
		{name: "not bound to a pod", header: good, refused: refit.NotBound, asked: 1,
			status: func(s *status) { delete(s.User.Extra, podUIDKey) }},
		{name: "the API server is away", header: good, err: errAway, refused: refit.Unavailable, asked: 1},
	} {
		api := fakeapi.New(nil, nil)
		api.OnCall = func(string) error { return test.err }
		if test.status != nil {
			api.Tokens = map[string]func(*status){"good": test.status}
		}
		caller, refusal := reviewer(api).Authenticate(t.Context(), test.header)
		if got := rt.Reason(refusal); got != test.refused || len(api.Calls) != test.asked {
			t.Errorf("%s: refused with %q after %d reviews, want %q after %d",
				test.name, got, len(api.Calls), test.refused, test.asked)
		}
		want := Caller{}
		if test.refused == "" {
			want = Caller{Node: rt.NodeName, PodName: "plugin-x", PodUID: "uid-x"}
			spec := []authenticationv1.TokenReviewSpec{{Token: "good", Audiences: []string{"phasegpu-numarefit"}}}
			if diff := cmp.Diff(spec, api.Reviews); diff != "" {
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
	if _, refusal := reviewer(fakeapi.New(nil, nil)).Authenticate(over, good); rt.Reason(refusal) != refit.TooLate {
		t.Errorf("the time is over: %v", refusal)
	}
}

// A caller may ask only about its token's own node, and only while the token's pod exists.
func TestAuthorize(t *testing.T) {
	for _, test := range []struct {
		name    string
		node    string
		uid     types.UID
		on      string // the pod's node, "" when it is gone
		err     error
		refused refit.Reason
		reads   int
	}{
		{"its own node", "n1", "uid-x", "n1", nil, "", 1},
		{"another node", "other", "uid-x", "n1", nil, refit.OtherNode, 0},
		{"its pod is gone", "n1", "", "", nil, refit.CallerGone, 1},
		{"its pod was replaced", "n1", "uid-y", "n1", nil, refit.CallerGone, 1},
		{"its pod is elsewhere", "n1", "uid-x", "other", nil, refit.CallerGone, 1},
		{"the API server is away", "n1", "uid-x", "n1", errors.New("connection refused"), refit.Unavailable, 1},
	} {
		api := fakeapi.New(nil, nil)
		api.OnCall = func(string) error { return test.err }
		if api.Plugin.UID, api.Plugin.Spec.NodeName = test.uid, test.on; test.on == "" {
			api.Plugin.Name = "plugin-y"
		}
		caller := Caller{Node: "n1", PodName: "plugin-x", PodUID: "uid-x"}
		refusal := reviewer(api).Authorize(t.Context(), caller, test.node)
		if got := rt.Reason(refusal); got != test.refused || len(api.Calls) != test.reads {
			t.Errorf("%s: refused with %q after %v, want %q after %d reads",
				test.name, got, api.Calls, test.refused, test.reads)
		}
		if len(api.Calls) > 0 && api.Calls[0] != "pod phasegpu-node/plugin-x" {
			t.Errorf("%s: read %v", test.name, api.Calls)
		}
	}
}
