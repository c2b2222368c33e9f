package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"time"
)

// validity is longer than any test and shorter than what a forgotten key should be good for.
const validity = 7 * 24 * time.Hour

// pki is a certificate authority of this control plane alone.
type pki struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte // the certificate
}

func newPKI() (pki, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pki{}, err
	}
	template, err := certificate("phasegpu test cluster")
	if err != nil {
		return pki{}, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return pki{}, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return pki{}, err
	}
	return pki{certificate: parsed, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// issue returns a serving certificate for names and IP addresses, and its key, both PEM.
func (p pki) issue(hosts ...string) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template, err := certificate(hosts[0])
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.certificate, key.Public(), p.key)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = encodeKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, err
}

func certificate(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour), // clocks differ
		NotAfter:     time.Now().Add(validity),
	}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// CA returns the certificate, PEM, that the API server's and all ServingCertificates are signed with.
func (c *ControlPlane) CA() []byte { return c.pki.pem }

// ServingCertificate writes a certificate for hosts (names or IP addresses) and its key into dir, as
// tls.crt and tls.key, as a Secret of type kubernetes.io/tls would be mounted.
func (c *ControlPlane) ServingCertificate(dir string, hosts ...string) error {
	cert, key, err := c.pki.issue(hosts...)
	if err != nil {
		return fmt.Errorf("certificate for %v: %w", hosts, err)
	}
	if err := writeFile(filepath.Join(dir, "tls.crt"), cert); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "tls.key"), key)
}
