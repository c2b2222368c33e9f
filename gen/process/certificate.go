package process

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Certificate is a serving certificate and its key, in two PEM files. They are read at every handshake: handshakes are
// few and cost far more than reading two small files, and the certificate is never stale.
type Certificate struct {
	certFile, keyFile string
	log               *zap.Logger

	mu        sync.Mutex
	cert, key []byte           // the file contents behind loaded
	loaded    *tls.Certificate // the last valid pair; nil if there was none yet
	failure   string           // why the files are invalid now, as logged
}

// NewCertificate returns the certificate in two PEM files, which need not exist yet.
func NewCertificate(certFile, keyFile string, log *zap.Logger) *Certificate {
	return &Certificate{certFile: certFile, keyFile: keyFile, log: log}
}

// Current returns the pair in the files. While they hold no valid pair (one is half written, or not replaced yet) it
// returns the last valid one and logs the reason once.
func (c *Certificate) Current() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.read()
	switch {
	case err == nil:
		c.failure = ""
	case c.loaded == nil:
		return nil, err
	case err.Error() != c.failure:
		c.failure = err.Error()
		c.log.Warn("keeping the serving certificate that was loaded before", zap.Error(err))
	}
	return c.loaded, nil
}

// read updates loaded from the files.
func (c *Certificate) read() error {
	cert, certErr := os.ReadFile(c.certFile)
	key, keyErr := os.ReadFile(c.keyFile)
	if err := errors.Join(certErr, keyErr); err != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	if c.loaded != nil && bytes.Equal(cert, c.cert) && bytes.Equal(key, c.key) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s and %s are no serving certificate: %w", c.certFile, c.keyFile, err)
	}
	c.cert, c.key, c.loaded = cert, key, &pair
	c.log.Info("serving certificate loaded", zap.String("file", c.certFile), zap.Time("notAfter", pair.Leaf.NotAfter))
	return nil
}

// Valid returns an error if there is no certificate or it has expired.
func (c *Certificate) Valid() error {
	pair, err := c.Current()
	if err == nil && time.Now().After(pair.Leaf.NotAfter) {
		expired := pair.Leaf.NotAfter.UTC().Format(time.RFC3339)
		err = fmt.Errorf("the serving certificate in %s expired at %s: renew it", c.certFile, expired)
	}
	return err
}

// Expiry returns a metric: the time at which the certificate expires.
func (c *Certificate) Expiry(name string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: name,
		Help: "Unix time at which the serving certificate expires, 0 without one.",
	}, func() float64 {
		pair, err := c.Current()
		if err != nil {
			return 0
		}
		return float64(pair.Leaf.NotAfter.Unix())
	})
}

// TLS returns the configuration of a server with this certificate.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Current() },
	}
}
