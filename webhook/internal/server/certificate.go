package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Certificate is a serving certificate and its key as they lie on disk. The files are read at every
// look: a handshake costs far more than two small files, the API server keeps its connections open, and
// so there is nothing to watch and nothing that can be stale.
type Certificate struct {
	certFile, keyFile string
	log               *zap.Logger

	mu      sync.Mutex
	cert    []byte // the files that loaded was made from
	key     []byte
	loaded  *tls.Certificate // nil until the files held a pair once
	failure string           // why the files hold no pair now, as logged
}

// NewCertificate returns the certificate in two PEM files, which need not exist yet.
func NewCertificate(certFile, keyFile string, log *zap.Logger) *Certificate {
	return &Certificate{certFile: certFile, keyFile: keyFile, log: log}
}

// Current returns the pair in the files. While they hold none, because one of them is half written or
// not replaced yet, it is the last pair that they held; the reason is logged once.
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

// read brings loaded up to the files.
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

// NotAfter is when the certificate expires.
func (c *Certificate) NotAfter() (time.Time, error) {
	pair, err := c.Current()
	if err != nil {
		return time.Time{}, err
	}
	return pair.Leaf.NotAfter, nil
}

// Valid returns an error when a client would refuse the certificate for its age, or there is none.
func (c *Certificate) Valid() error {
	notAfter, err := c.NotAfter()
	if err == nil && time.Now().After(notAfter) {
		err = fmt.Errorf("the serving certificate in %s expired at %s: renew it", c.certFile, notAfter.UTC().Format(time.RFC3339))
	}
	return err
}

// TLS returns the configuration of a server that shows this certificate.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.Current()
		},
	}
}
