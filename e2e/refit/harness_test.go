package refit

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
	"github.com/phasegpu/phasegpu/gen/refit"
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
)

const record = rt.Record

// site is a stack with the refit service and a client of it.
type site struct {
	*stack.Stack
	refit  *stack.Refit
	client *http.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Stack: stack.StartT(t, stack.Options{Scheduler: stack.Patient})}
	var err error
	s.refit, err = s.StartRefit(t.Context())
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			fmt.Fprintf(t.Output(), "--- end of the log of the refit service\n%s\n", s.refit.Process.Tail())
		}
		if err := s.refit.Process.Kill(); err != nil {
			t.Error(err)
		}
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA())
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

// node adds a node of two cards with 40 GiB and returns the token of its device plugin.
func (s *site) node(t *testing.T, name string) string {
	t.Helper()
	devices := nodesim.GPUs(name, 2, 40960)
	must(t, s.Sim.AddNode(t.Context(), nodesim.Node{Name: name, Labels: map[string]string{"site": name},
		Devices: devices}))
	must(t, s.AwaitNode(t.Context(), name, devices))
	return s.token(t, s.plugin(t, name), refit.Audience)
}

// plugin creates a pod of the device plugin on a node.
func (s *site) plugin(t *testing.T, node string) *corev1.Pod {
	t.Helper()
	return s.onNode(t, node, stack.NodeNamespace, "phasegpu-device-plugin")
}

// onNode creates a pod of a service account on a node.
func (s *site) onNode(t *testing.T, node, namespace, account string) *corev1.Pod {
	t.Helper()
	pod := stack.NewPod(namespace, account+"-"+node, stack.App("plugin"))
	pod.Spec.ServiceAccountName = account
	pod.Spec.NodeName = node
	pod, err := s.Create(t.Context(), pod)
	must(t, err)
	return pod
}

// token returns a token of the pod's service account for an audience, bound to the pod, as its kubelet would
// project into it.
func (s *site) token(t *testing.T, pod *corev1.Pod, audience string) string {
	t.Helper()
	return s.issue(t, pod.Namespace, pod.Spec.ServiceAccountName, audience, &authenticationv1.BoundObjectReference{
		APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
	})
}

func (s *site) issue(t *testing.T, namespace, account, audience string,
	bound *authenticationv1.BoundObjectReference) string {
	t.Helper()
	answer, err := s.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}, ExpirationSeconds: new(int64(3600)),
				BoundObjectRef: bound},
		}, metav1.CreateOptions{})
	must(t, err)
	return answer.Status.Token
}

// response is a response and its HTTP status.
type response struct {
	status int
	refit.Response
}

func (s *site) ask(ctx context.Context, token string, q *refit.Request) (a response, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.refit.URL+refit.Path, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := s.client.Do(r)
	if err != nil {
		return a, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	a.status = answer.StatusCode
	if err = errors.Join(err, json.Unmarshal(text, &a.Response)); err != nil {
		return a, fmt.Errorf("%s: %s: %w", answer.Status, text, err)
	}
	return a, nil
}

// wants sends a request and expects a reason, "" for an answer. On a busy machine the service may need more than its 2
// s; then it sends the request again.
func (s *site) wants(t *testing.T, what, token string, q *refit.Request, reasons ...refit.Reason) (a response) {
	t.Helper()
	must(t, stack.Eventually(t.Context(), what+" is answered in time", func(ctx context.Context) (err error) {
		if a, err = s.ask(ctx, token, q); err == nil && rt.Reason(a.Refusal) == refit.TooLate {
			err = a.Refusal
		}
		return err
	}))
	if got := rt.Reason(a.Refusal); !slices.Contains(reasons, got) || (a.status == http.StatusOK) != (got == "") {
		t.Errorf("%s: status %d, %v, want %q", what, a.status, a.Refusal, reasons)
	}
	return a
}

// question asks that a pod's container hold only the allowed devices.
func question(pod *corev1.Pod, position int, allowed ...string) *refit.Request {
	q := rt.Request(pod, position, allowed...)
	q.Node = pod.Spec.NodeName
	return q
}

// inGate creates a pod and returns it bound to a node whose kubelet does nothing for now.
func (s *site) inGate(t *testing.T, node string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	s.Sim.Pause(node)
	stack.Annotate(pod, "hami.io/numa-alignment", "best-effort")
	pod.Spec.NodeSelector = map[string]string{"site": node}
	pod, err := s.Create(t.Context(), pod)
	must(t, err)
	pod, err = s.AwaitBound(t.Context(), pod)
	must(t, err)
	return pod
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
