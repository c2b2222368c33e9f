// Package trust publishes the CA of the serving certificate. An issuer such as cert-manager writes Secrets only, so the
// service copies the CA from its own Secret into a ConfigMap that its callers mount.
package trust

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Key is the CA's key in the ConfigMap and its file's name beside the certificate.
const Key = "ca.crt"

// interval is the time between two looks at the file and the ConfigMap. Kubelet updates either in pods within a minute.
const interval = 10 * time.Second

// CA is a file with a CA's certificates and the ConfigMap that publishes them.
type CA struct {
	File            string // PEM
	Namespace, Name string // of the ConfigMap, which must exist
	ConfigMaps      corev1.ConfigMapsGetter
	Log             *zap.Logger
}

// Keep keeps the ConfigMap equal to the file until ctx ends. All replicas do it: they mount the same Secret, so after a
// change they agree once kubelet has updated all of them.
func (c *CA) Keep(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	failure := ""
	for {
		err := c.publish(ctx)
		switch {
		case err == nil:
			failure = ""
		case ctx.Err() == nil && err.Error() != failure: // once, not at every attempt
			failure = err.Error()
			c.Log.Warn("callers may not trust the serving certificate", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// publish updates the ConfigMap if it differs from the file.
func (c *CA) publish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
	failed := func(err error) error { return fmt.Errorf("CA for ConfigMap %s/%s: %w", c.Namespace, c.Name, err) }
	ca, err := os.ReadFile(c.File)
	if err != nil {
		return failed(err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return failed(fmt.Errorf("%s has no certificate in PEM", c.File))
	}
	maps := c.ConfigMaps.ConfigMaps(c.Namespace)
	m, err := maps.Get(ctx, c.Name, metav1.GetOptions{})
	if err != nil {
		return failed(err)
	}
	if m.Data[Key] == string(ca) {
		return nil
	}
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	m.Data[Key] = string(ca)
	_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err):
		return nil // another replica was faster; the next look shows what it wrote
	case err != nil:
		return failed(err)
	}
	c.Log.Info("published the CA", zap.String("configMap", c.Namespace+"/"+c.Name), zap.String("file", c.File))
	return nil
}
