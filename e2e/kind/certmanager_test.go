//go:build kind

package kind_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/e2e/kind"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

const certManagerOverlay = "cert-manager/overlay"

// TestCertManager installs phasegpu beside cert-manager: the API server trusts the webhook and the device plugins the
// refit service, without a hand in it. Then everything is renewed, CAs and all, as `cmctl renew` does; no admission
// fails, no pod is replaced, and the device plugins still know the refit service. It leaves as it came.
func TestCertManager(t *testing.T) {
	var s *kind.Story
	t.Cleanup(func() {
		if t.Failed() && s != nil { // what the tests after this one expect, when a picture has been taken
			ctx := context.WithoutCancel(t.Context())
			if err := errors.Join(script(ctx, s, "undeploy", certManagerOverlay), script(ctx, s, "cert-manager/down"),
				script(ctx, s, "deploy")); err != nil {
				t.Error(err)
			}
		}
	})
	s = kind.Begin(t)
	s.Must(script(t.Context(), s, "cert-manager/up"))
	s.Must(script(t.Context(), s, "undeploy"))
	s.Must(script(t.Context(), s, "deploy", certManagerOverlay))
	objects, err := dynamic.NewForConfig(s.Cluster.Config)
	s.Must(err)
	c := certificates{s, objects.Resource(schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1",
		Resource: "certificates"}).Namespace(stack.SystemNamespace)}

	c.nodesHaveNoKeys()
	c.trusted()
	c.follows("before")
	was := map[string]*x509.Certificate{}
	for _, secret := range []string{webhookCA, webhookTLS, refitCA, refitTLS} {
		was[secret] = c.shown(secret)
	}
	pods := c.pods()

	admitting, stop := context.WithCancel(t.Context())
	admitted := make(chan error, 1)
	go func() { admitted <- c.keepAdmitting(admitting) }()
	c.renew(webhookCA, refitCA)
	c.renew(webhookTLS, refitTLS)
	for ca, leaf := range map[string]string{webhookCA: webhookTLS, refitCA: refitTLS} {
		now := map[string]*x509.Certificate{ca: c.shown(ca), leaf: c.shown(leaf)}
		if now[ca].Equal(was[ca]) || now[leaf].Equal(was[leaf]) {
			t.Errorf("%s or %s is as before", ca, leaf)
		}
		// While only one side has the new certificates, the other still trusts it.
		signed(s, now[leaf], was[ca])
		signed(s, was[leaf], now[ca])
	}
	c.used("phasegpu-webhook", "phasegpu_webhook_certificate_expiry_timestamp_seconds", webhookTLS)
	c.used("phasegpu-numarefit", "phasegpu_numarefit_certificate_expiry_timestamp_seconds", refitTLS)
	c.trusted()
	c.follows("after")
	stop()
	s.Must(<-admitted)
	if now := c.pods(); !now.Equal(pods) {
		t.Errorf("pods that came or started again: %v, that went: %v", now.Difference(pods), pods.Difference(now))
	}

	s.Must(script(t.Context(), s, "undeploy", certManagerOverlay))
	nothingRefuses(s)
	s.Must(script(t.Context(), s, "cert-manager/down"))
	s.Must(script(t.Context(), s, "deploy"))
}

// Certificates of the overlay, by the names of their Secrets.
const (
	webhookCA, webhookTLS = "phasegpu-webhook-ca", "phasegpu-webhook"
	refitCA, refitTLS     = "phasegpu-numarefit-ca", "phasegpu-numarefit-tls"
)

// certificates are cert-manager's in phasegpu's namespace.
type certificates struct {
	*kind.Story
	client dynamic.ResourceInterface
}

// data is a value of a Secret.
func (c certificates) data(secret, key string) []byte {
	c.Helper()
	o, err := c.Cluster.Client.CoreV1().Secrets(stack.SystemNamespace).Get(c.Context(), secret, metav1.GetOptions{})
	c.Must(err)
	return o.Data[key]
}

// shown is the certificate in a Secret.
func (c certificates) shown(secret string) *x509.Certificate {
	c.Helper()
	block, _ := pem.Decode(c.data(secret, corev1.TLSCertKey))
	if block == nil {
		c.Fatalf("Secret %s has no certificate", secret)
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	c.Must(err)
	return parsed
}

// signed expects that a CA has signed a certificate.
func signed(s *kind.Story, certificate, ca *x509.Certificate) {
	s.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: certificate.DNSNames[0]}); err != nil {
		s.Error(err)
	}
}

// trusted waits until both clients trust the CAs in the Secrets. cainjector keeps the former CAs until they expire.
func (c certificates) trusted() {
	c.Helper()
	c.Must(stack.Eventually(c.Context(), "clients trust the CAs", func(ctx context.Context) error {
		webhooks, err := c.Cluster.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx,
			"phasegpu-webhook", metav1.GetOptions{})
		if err != nil {
			return err
		}
		bundle, err := c.Cluster.Client.CoreV1().ConfigMaps(stack.NodeNamespace).Get(ctx, refitCA, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for ca, got := range map[string][]byte{webhookCA: webhooks.Webhooks[0].ClientConfig.CABundle,
			refitCA: []byte(bundle.Data["ca.crt"])} {
			if !bytes.Contains(got, c.data(ca, corev1.TLSCertKey)) {
				return fmt.Errorf("instead of %s they trust:\n%s", ca, got)
			}
		}
		return nil
	}))
	c.Logf("the API server and the device plugins trust the CAs")
}

// nodesHaveNoKeys: what a pod mounts its node can read, so where the device plugins are there is no Secret at all.
func (c certificates) nodesHaveNoKeys() {
	c.Helper()
	secrets, err := c.Cluster.Client.CoreV1().Secrets(stack.NodeNamespace).List(c.Context(), metav1.ListOptions{})
	c.Must(err)
	for _, secret := range secrets.Items {
		c.Errorf("Secret %s is where nodes can read it", secret.Name)
	}
}

// follows has a pod that starts only if the device plugin reaches the refit service.
func (c certificates) follows(name string) {
	c.Helper()
	pod := c.Submit(aligned(c.Story, name, wire.Strict, map[string]string{"train": "1"},
		stack.App("train", stack.GPU(1, 30000))))
	c.Running(pod, "train")
	c.Event(pod, "Refitted", kind.CardE)
	c.Delete(pod)
}

// pods are what runs of webhook, refit service and device plugins, by UID and restarts.
func (c certificates) pods() sets.Set[string] {
	c.Helper()
	all := sets.New[string]()
	for _, name := range []string{"phasegpu-webhook", "phasegpu-numarefit", "phasegpu-device-plugin"} {
		pods, err := c.Cluster.SystemPods(c.Context(), name)
		c.Must(err)
		for _, pod := range pods {
			all.Insert(fmt.Sprintf("%s %s, %d restarts", pod.Name, pod.UID,
				pod.Status.ContainerStatuses[0].RestartCount))
		}
	}
	return all
}

// keepAdmitting has a pod with devices admitted again and again until ctx ends, and returns the first failure.
func (c certificates) keepAdmitting(ctx context.Context) error {
	pod := c.Pod("with-devices", stack.App("app", stack.GPU(1, 1000)))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	n := 0
	for ; ctx.Err() == nil; n++ {
		if err := c.Cluster.DryRun(ctx, pod); err != nil && ctx.Err() == nil {
			return fmt.Errorf("admission %d: %w", n, err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	c.Logf("%d pods were admitted meanwhile", n)
	return nil
}

// renew has cert-manager issue the certificates of these Secrets anew, and waits for them.
func (c certificates) renew(secrets ...string) {
	c.Helper()
	before := map[string]int64{}
	for _, secret := range secrets {
		c.Must(stack.Eventually(c.Context(), "renewal of "+secret+" is asked for", func(ctx context.Context) error {
			o, err := c.certificate(ctx, secret)
			if err != nil {
				return err
			}
			before[secret], _, _ = unstructured.NestedInt64(o.Object, "status", "revision")
			conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
			if err != nil {
				return err
			}
			conditions = append(conditions, map[string]any{
				"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by a test",
				"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": o.GetGeneration(),
			})
			if err := unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions"); err != nil {
				return err
			}
			_, err = c.client.UpdateStatus(ctx, o, metav1.UpdateOptions{})
			return err
		}))
	}
	for _, secret := range secrets {
		c.Must(stack.Eventually(c.Context(), secret+" is renewed", func(ctx context.Context) error {
			o, err := c.certificate(ctx, secret)
			if err != nil {
				return err
			}
			if revision, _, _ := unstructured.NestedInt64(o.Object, "status", "revision"); revision == before[secret] {
				return fmt.Errorf("its status is %v", o.Object["status"])
			}
			return nil
		}))
		c.Logf("%s is renewed", secret)
	}
}

// certificate finds the Certificate of a Secret.
func (c certificates) certificate(ctx context.Context, secret string) (*unstructured.Unstructured, error) {
	list, err := c.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list.Items, func(o unstructured.Unstructured) bool {
		name, _, _ := unstructured.NestedString(o.Object, "spec", "secretName")
		return name == secret
	})
	if i < 0 {
		return nil, fmt.Errorf("no Certificate is for Secret %s", secret)
	}
	return &list.Items[i], nil
}

// used waits until each pod of a workload has the certificate that is in its Secret, by the metric that tells when it
// ends.
func (c certificates) used(workload, metric, secret string) {
	c.Helper()
	c.Must(haveVolumesUpdated(c.Context(), c.Story, workload, ""))
	want := c.shown(secret).NotAfter.Unix()
	c.Must(stack.Within(c.Context(), 3*time.Minute, workload+" uses the new certificate",
		func(ctx context.Context) error {
			pods, err := c.Cluster.SystemPods(ctx, workload)
			if err != nil {
				return err
			}
			for _, pod := range pods {
				page, err := c.Cluster.PodPage(ctx, pod.Namespace, pod.Name, 8080, "/metrics")
				if err != nil {
					return err
				}
				value, _ := stack.Metric(string(page), metric)
				if ends, err := strconv.ParseFloat(value, 64); err != nil || int64(ends) != want {
					return fmt.Errorf("that of pod %s ends at %q, not at %d", pod.Name, value, want)
				}
			}
			return nil
		}))
	c.Logf("%s uses the new certificate", workload)
}
