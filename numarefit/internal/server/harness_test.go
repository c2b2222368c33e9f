package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/phasegpu/phasegpu/gen/refit"
	"github.com/phasegpu/phasegpu/numarefit/internal/auth"
	"github.com/phasegpu/phasegpu/numarefit/internal/decide"
)

// cluster is an API server with node "node", its device plugin and a pod of one container on GPU-a, and a
// list of what it was asked. Tokens are called by what is right or wrong with them.
type cluster struct {
	authenticationclient.TokenReviewInterface
	calls   []string
	pod     *corev1.Pod
	stuck   func(call string) error // what a call meets
	notes   []string                // events: type, reason, action, pod
	longest int                     // bytes of a note
}

func newCluster() *cluster {
	return &cluster{pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", UID: "uid-p", ResourceVersion: "1", Annotations: map[string]string{
			"hami.io/numa-alignment": "strict", "hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,1000,0:;",
		}},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": resource.MustParse("1000")},
		}}}},
	}}
}

func (c *cluster) call(ctx context.Context, what string) error {
	c.calls = append(c.calls, what)
	if c.stuck != nil {
		if err := c.stuck(what); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (c *cluster) Create(ctx context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	if err := c.call(ctx, "review"); err != nil {
		return nil, err
	}
	s := &authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: review.Spec.Audiences}
	s.User.Username = "system:serviceaccount:phasegpu-system:phasegpu-device-plugin"
	s.User.Extra = map[string]authenticationv1.ExtraValue{
		"authentication.kubernetes.io/pod-name": {"plugin-x"}, "authentication.kubernetes.io/pod-uid": {"uid-x"},
		"authentication.kubernetes.io/node-name": {"node"},
	}
	switch review.Spec.Token {
	case "good":
	case "other-account":
		s.User.Username = "system:serviceaccount:team:default"
	case "no-audience":
		s.Audiences = nil
	case "other-node":
		s.User.Extra["authentication.kubernetes.io/node-name"] = []string{"other"}
	case "not-bound":
		s.User.Extra = nil
	case "pod-gone":
		s.User.Extra["authentication.kubernetes.io/pod-name"] = []string{"plugin-y"}
	default:
		s = &authenticationv1.TokenReviewStatus{Error: "token has expired"}
	}
	review.Status = *s
	return review, nil
}

func (c *cluster) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	if err := c.call(ctx, "pod "+namespace+"/"+name); err != nil {
		return nil, err
	}
	switch {
	case namespace == "phasegpu-system" && name == "plugin-x":
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid-x"}, Spec: corev1.PodSpec{NodeName: "node"}}, nil
	case c.pod != nil && namespace == c.pod.Namespace && name == c.pod.Name:
		return c.pod.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}

func (c *cluster) Node(ctx context.Context, name string) (*corev1.Node, error) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		"hami.io/node-nvidia-register": `[{"id":"GPU-a","count":10,"devmem":1500,"devcore":100,"type":"A100","health":true},
			{"id":"GPU-b","count":10,"devmem":1500,"devcore":100,"type":"A100","health":true},
			{"id":"GPU-s","count":10,"devmem":500,"devcore":100,"type":"A100","health":true}]`}}}
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("20")}
	return n, c.call(ctx, "node "+name)
}

func (c *cluster) PodsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	return []corev1.Pod{*c.pod}, c.call(ctx, "pods of "+node)
}

func (c *cluster) Annotate(ctx context.Context, pod *corev1.Pod, key, value string) error {
	if err := c.call(ctx, "patch "+pod.Name); err != nil {
		return err
	}
	c.pod.Annotations[key] = value
	return nil
}

// Eventf implements events.EventRecorder.
func (c *cluster) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	c.notes = append(c.notes, strings.Join([]string{kind, reason, action, regarding.(*corev1.Pod).Name}, " "))
	c.longest = max(c.longest, len(fmt.Sprintf(note, args...)))
}

// service is the server on real ports.
type service struct {
	*cluster
	metrics         *Metrics
	address, health string
	client          *http.Client // trusts the certificate
	dir             string
	stop            func() error
}

// serve starts the service; change, if any, changes how.
func serve(t *testing.T, change func(*Options, *Handler)) *service {
	t.Helper()
	s := &service{cluster: newCluster(), dir: t.TempDir()}
	authority := s.certify(t, time.Now().Add(time.Hour))
	certificate := &Certificate{CertFile: filepath.Join(s.dir, "tls.crt"), KeyFile: filepath.Join(s.dir, "tls.key"), Log: zap.NewNop()}
	s.metrics = NewMetrics(certificate)
	h := &Handler{
		Auth:    &auth.Reviewer{Reviews: s.cluster, Pod: s.Pod, Audience: refit.Audience, Namespace: "phasegpu-system", ServiceAccount: "phasegpu-device-plugin"},
		Decider: &decide.Decider{Store: s.cluster, Settle: time.Second},
		Tell:    Tell(s.cluster), Metrics: s.metrics, Log: zap.NewNop(), Budget: time.Minute,
	}
	o := Options{
		Refit: listen(t), Health: listen(t), Handler: h, Cert: certificate, Metrics: s.metrics, Log: zap.NewNop(),
		Ready: func(context.Context) error { return certificate.Valid() },
	}
	if change != nil {
		change(&o, h)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, o) }()
	s.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	s.address, s.health = o.Refit.Addr().String(), "http://"+o.Health.Addr().String()
	s.client = trusting(authority)
	return s
}

func trusting(authority []byte) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS10},
	}}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// certify writes a new certificate for localhost that is its own CA, and returns it.
func (s *service) certify(t *testing.T, notAfter time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{"localhost"},
		NotBefore: notAfter.Add(-24 * time.Hour), NotAfter: notAfter, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	keyDER, keyErr := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err, keyErr); err != nil {
		t.Fatal(err)
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.write(t, "tls.crt", authority)
	s.write(t, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	return authority
}

func (s *service) write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// question is one that moves the pod to GPU-b.
func question() *refit.Request {
	return &refit.Request{
		Pod: refit.Pod{Namespace: "team", Name: "p", UID: "uid-p"}, Node: "node",
		Container: refit.Container{Name: "app"}, Family: "NVIDIA", Allowed: []string{"GPU-b"},
	}
}

func body(t *testing.T, q *refit.Request) []byte {
	t.Helper()
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// post sends a body with a token, "" for none, and returns the status and the answer.
func (s *service) post(t *testing.T, token string, body []byte) (int, answer) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.address+refit.Path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return s.do(t, r)
}

// answer is either kind of answer.
type answer struct {
	Devices         []string
	Moved           bool
	Reason, Message string
}

func (s *service) do(t *testing.T, r *http.Request) (int, answer) {
	t.Helper()
	response, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	var a answer
	if err := errors.Join(err, json.Unmarshal(text, &a)); err != nil {
		t.Fatalf("%s: %v: %s", response.Status, err, text)
	}
	return response.StatusCode, a
}

// counted returns how often a result with a reason was counted.
func (s *service) counted(t *testing.T, r result, reason refit.Reason) int {
	t.Helper()
	var m dto.Metric
	if err := s.metrics.requests.WithLabelValues(string(r), string(reason)).Write(&m); err != nil {
		t.Fatal(err)
	}
	return int(m.GetCounter().GetValue())
}

// get returns an answer's status and body.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
