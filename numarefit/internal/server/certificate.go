package server

import (
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Certificate is the serving certificate as it lies on disk, read at every handshake: there are few, and
// nothing can be stale.
type Certificate struct {
	CertFile, KeyFile string
	Log               *zap.Logger

	mu      sync.Mutex
	last    *tls.Certificate // what the files held last
	failure string           // why they hold none now, as logged
}

// Current returns the pair in the files. While they hold none (one is half written, or not replaced yet)
// it is the last pair they held; the reason is logged once, not at every handshake.
func (c *Certificate) Current() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	switch {
	case err == nil:
		c.last, c.failure = &pair, ""
	case c.last == nil:
		return nil, fmt.Errorf("%s and %s are no serving certificate: %w", c.CertFile, c.KeyFile, err)
	case err.Error() != c.failure:
		c.failure = err.Error()
		c.Log.Warn("keeping the serving certificate that was loaded before", zap.Error(err))
	}
	return c.last, nil
}

// Valid returns an error when a client would refuse the certificate for its age, or there is none.
func (c *Certificate) Valid() error {
	pair, err := c.Current()
	if err == nil && time.Now().After(pair.Leaf.NotAfter) {
		err = fmt.Errorf("the serving certificate in %s expired at %s: renew it", c.CertFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return err
}

// expiry is the Unix time at which the certificate expires, 0 without one.
func (c *Certificate) expiry() float64 {
	pair, err := c.Current()
	if err != nil {
		return 0
	}
	return float64(pair.Leaf.NotAfter.Unix())
}

// TLS returns the configuration of a server that shows this certificate.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Current() },
	}
}
