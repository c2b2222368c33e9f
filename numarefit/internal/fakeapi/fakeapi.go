// Package fakeapi is the API server of tests. It has one pod, its node, and the pod of the node's device plugin.
package fakeapi

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
)

// Claims of a token that is bound to a pod.
const (
	PodName  = "authentication.kubernetes.io/pod-name"
	PodUID   = "authentication.kubernetes.io/pod-uid"
	NodeName = "authentication.kubernetes.io/node-name"
)

// API is the API server.
type API struct {
	authenticationclient.TokenReviewInterface
	Target  *corev1.Pod  // nil when it is gone
	Machine *corev1.Node // nil when it is gone
	Plugin  *corev1.Pod
	Calls   []string // in order

	// Tokens changes the review of the token of a name. "good" is the device plugin's; others that are not here have
	// expired.
	Tokens  map[string]func(*authenticationv1.TokenReviewStatus)
	Reviews []authenticationv1.TokenReviewSpec

	OnCall func(call string) error // before each call that is not a write; an error is the call's
	// Before and After are called around the nth write, from 1. After an error of Before the write is not carried out.
	// An error of After is the answer to a write that was carried out.
	Before, After func(n int) error
}

// New returns an API server with a pod and a node.
func New(pod *corev1.Pod, node *corev1.Node) *API {
	return &API{Target: pod, Machine: node, Plugin: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "phasegpu-node", Name: "plugin-x", UID: "uid-x"},
		Spec:       corev1.PodSpec{NodeName: rt.NodeName},
	}}
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(corev1.Resource(resource), name)
}

func (a *API) call(ctx context.Context, what string) error {
	a.Calls = append(a.Calls, what)
	if a.OnCall != nil {
		if err := a.OnCall(what); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Writes is the number of writes.
func (a *API) Writes() (n int) {
	for _, call := range a.Calls {
		if strings.HasPrefix(call, "patch ") {
			n++
		}
	}
	return n
}

// Create reviews a token.
func (a *API) Create(
	ctx context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	a.Reviews = append(a.Reviews, review.Spec)
	if err := a.call(ctx, "review"); err != nil {
		return nil, err
	}
	answer := review.DeepCopy()
	change, known := a.Tokens[review.Spec.Token]
	if !known && review.Spec.Token != "good" {
		answer.Status = authenticationv1.TokenReviewStatus{Error: "token has expired"}
		return answer, nil
	}
	answer.Status = authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: slices.Clone(review.Spec.Audiences),
		User: authenticationv1.UserInfo{
			Username: "system:serviceaccount:phasegpu-node:phasegpu-device-plugin",
			Extra: map[string]authenticationv1.ExtraValue{
				PodName: {a.Plugin.Name}, PodUID: {string(a.Plugin.UID)}, NodeName: {rt.NodeName},
			},
		},
	}
	if known {
		change(&answer.Status)
	}
	return answer, nil
}

// Pod returns the pod or the device plugin's.
func (a *API) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	if err := a.call(ctx, "pod "+namespace+"/"+name); err != nil {
		return nil, err
	}
	for _, p := range []*corev1.Pod{a.Target, a.Plugin} {
		if p != nil && p.Namespace == namespace && p.Name == name {
			return p.DeepCopy(), nil
		}
	}
	return nil, notFound("pods", name)
}

// Node returns the node.
func (a *API) Node(ctx context.Context, name string) (*corev1.Node, error) {
	if err := a.call(ctx, "node "+name); err != nil {
		return nil, err
	}
	if a.Machine == nil || a.Machine.Name != name {
		return nil, notFound("nodes", name)
	}
	return a.Machine, nil
}

// PodsOn returns the pod if it is on that node.
func (a *API) PodsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	if err := a.call(ctx, "pods of "+node); err != nil {
		return nil, err
	}
	if a.Target == nil || a.Target.Spec.NodeName != node {
		return nil, nil
	}
	return []corev1.Pod{*a.Target.DeepCopy()}, nil
}

// Annotate writes an annotation of the pod if it is exactly the one given.
func (a *API) Annotate(ctx context.Context, pod *corev1.Pod, key, value string) error {
	a.Calls = append(a.Calls, "patch "+pod.Name)
	n := a.Writes()
	if a.Before != nil {
		if err := a.Before(n); err != nil {
			return err
		}
	}
	if err := a.Patch(pod.UID, pod.ResourceVersion, key, value); err != nil {
		return err
	}
	if a.After != nil {
		return a.After(n)
	}
	return ctx.Err()
}

// Patch carries out a write.
func (a *API) Patch(uid types.UID, version, key, value string) error {
	switch {
	case a.Target == nil:
		return notFound("pods", "p")
	case a.Target.UID != uid || a.Target.ResourceVersion != version:
		return apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("it has changed"))
	}
	a.Target.Annotations[key] = value
	a.Changed()
	return nil
}

// Changed gives the pod its next resourceVersion.
func (a *API) Changed() {
	version, _ := strconv.Atoi(a.Target.ResourceVersion)
	a.Target.ResourceVersion = strconv.Itoa(version + 1)
}

// Certificate writes tls.crt, tls.key and ca.crt for example.com into a folder. It returns the certificate in PEM, and
// a client that trusts it.
func Certificate(t testing.TB, dir string) ([]byte, *http.Client) {
	t.Helper()
	pair := httptest.NewTLSServer(nil)
	pair.Close()
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate().Raw})
	key, err := x509.MarshalPKCS8PrivateKey(pair.TLS.Certificates[0].PrivateKey)
	for name, text := range map[string][]byte{
		"tls.crt": cert, "ca.crt": cert, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	transport := pair.Client().Transport.(*http.Transport)
	transport.TLSClientConfig.ServerName, transport.DisableKeepAlives = "example.com", true
	return cert, pair.Client()
}
