package selfsigned

import (
	"bytes"
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Keys of the Secret. The server reads the first two.
const (
	currentCert, currentKey = corev1.TLSCertKey, corev1.TLSPrivateKeyKey
	nextCert, nextKey       = "next.crt", "next.key"
)

// Name is an object's.
type Name struct{ Namespace, Name string }

// Service is one server with its clients.
type Service struct {
	Client kubernetes.Interface
	Host   string // the name that clients call it by
	Secret Name   // what the server presents, and its successor
	// What clients trust: the caBundle of a MutatingWebhookConfiguration, or key ca.crt of a ConfigMap. One of them
	// is set.
	Webhook   string
	ConfigMap Name
}

// Renew advances the state and writes each object that changed. The objects must exist. A conflict with another writer
// is an error; the next run decides again.
func (s *Service) Renew(ctx context.Context, now time.Time) (changed bool, err error) {
	secret, err := s.Client.CoreV1().Secrets(s.Secret.Namespace).Get(ctx, s.Secret.Name, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("reading Secret %s/%s: %w", s.Secret.Namespace, s.Secret.Name, err)
	}
	bundle, write, err := s.trust(ctx)
	if err != nil {
		return false, err
	}
	before := State{
		Current: Pair{secret.Data[currentCert], secret.Data[currentKey]},
		Next:    Pair{secret.Data[nextCert], secret.Data[nextKey]},
		Trusted: bundle,
	}
	after, err := Advance(before, s.Host, now)
	if err != nil {
		return false, err
	}
	// The Secret first: a successor is only stored there, and a first certificate works a moment later.
	for key, value := range map[string][]byte{
		currentCert: after.Current.Cert, currentKey: after.Current.Key,
		nextCert: after.Next.Cert, nextKey: after.Next.Key,
	} {
		changed = set(secret, key, value) || changed
	}
	if changed {
		secrets := s.Client.CoreV1().Secrets(secret.Namespace)
		if _, err := secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			return false, fmt.Errorf("writing Secret %s/%s: %w", secret.Namespace, secret.Name, err)
		}
	}
	if !bytes.Equal(before.Trusted, after.Trusted) {
		return true, write(after.Trusted)
	}
	return changed, nil
}

// set sets a value, or deletes it if it is empty, and reports whether that changed anything.
func set(secret *corev1.Secret, key string, value []byte) bool {
	if bytes.Equal(secret.Data[key], value) {
		return false
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if secret.Data[key] = value; len(value) == 0 {
		delete(secret.Data, key)
	}
	return true
}

// trust reads what clients trust, and returns how to write it.
func (s *Service) trust(ctx context.Context) (bundle []byte, write func([]byte) error, err error) {
	if s.Webhook != "" {
		return s.webhookTrust(ctx)
	}
	const key = "ca.crt"
	maps := s.Client.CoreV1().ConfigMaps(s.ConfigMap.Namespace)
	m, err := maps.Get(ctx, s.ConfigMap.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("ConfigMap %s/%s: %w", s.ConfigMap.Namespace, s.ConfigMap.Name, err)
	}
	return []byte(m.Data[key]), func(bundle []byte) error {
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		m.Data[key] = string(bundle)
		if _, err := maps.Update(ctx, m, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
		}
		return nil
	}, nil
}

func (s *Service) webhookTrust(ctx context.Context) (bundle []byte, write func([]byte) error, err error) {
	configurations := s.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	c, err := configurations.Get(ctx, s.Webhook, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("MutatingWebhookConfiguration %s: %w", s.Webhook, err)
	}
	if len(c.Webhooks) == 0 {
		return nil, nil, fmt.Errorf("MutatingWebhookConfiguration %s has no webhooks", s.Webhook)
	}
	return common(c.Webhooks), func(bundle []byte) error {
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = bundle
		}
		if _, err := configurations.Update(ctx, c, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("MutatingWebhookConfiguration %s: %w", c.Name, err)
		}
		return nil
	}, nil
}

// common returns the caBundle of all webhooks, nil if they differ.
func common(webhooks []admissionregistrationv1.MutatingWebhook) []byte {
	bundle := webhooks[0].ClientConfig.CABundle
	for _, w := range webhooks[1:] {
		if !bytes.Equal(bundle, w.ClientConfig.CABundle) {
			return nil
		}
	}
	return bundle
}
