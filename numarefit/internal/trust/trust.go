// Package trust tells the service's callers by which CA they know it, where the certificate comes from an issuer
// that writes Secrets alone, as cert-manager does: the service copies the CA, and nothing but it, from its own Secret
// into a ConfigMap that they mount.
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

// Key is where in the ConfigMap the CA is, and the name of its file beside the certificate.
const Key = "ca.crt"

// interval is how long a change of the file, or of the ConfigMap, may go unseen. Kubelet brings either to pods within
// a minute or so.
const interval = 10 * time.Second

// CA is a CA's certificates, and the ConfigMap that is to hold them.
type CA struct {
	File            string // PEM
	Namespace, Name string // of the ConfigMap, which must be there
	ConfigMaps      corev1.ConfigMapsGetter
	Log             *zap.Logger
}

// Keep keeps the ConfigMap at what the file holds, until ctx ends. Replicas do so side by side: they mount the same
// Secret, so when it changes they agree as soon as kubelet has brought it to all of them.
func (c *CA) Keep(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	failure := ""
	for {
		err := c.publish(ctx)
		switch {
		case err == nil:
			failure = ""
		case ctx.Err() == nil && err.Error() != failure: // once, not at every try
			failure = err.Error()
			c.Log.Warn("callers may not know the serving certificate", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// publish writes the ConfigMap if it holds something else.
func (c *CA) publish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
	ca, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("CA for ConfigMap %s/%s: %w", c.Namespace, c.Name, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return fmt.Errorf("CA for ConfigMap %s/%s: %s has no certificate in PEM", c.Namespace, c.Name, c.File)
	}
	maps := c.ConfigMaps.ConfigMaps(c.Namespace)
	m, err := maps.Get(ctx, c.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s, which is to have the CA: %w", c.Namespace, c.Name, err)
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
		return nil // another replica was faster: the next look tells
	case err != nil:
		return fmt.Errorf("ConfigMap %s/%s, which is to have the CA: %w", c.Namespace, c.Name, err)
	}
	c.Log.Info("callers are told the CA", zap.String("configMap", c.Namespace+"/"+c.Name), zap.String("file", c.File))
	return nil
}
