package controlplane

import (
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"
)

// pki is the one serving certificate of a control plane and of all that runs beside it, on 127.0.0.1.
type pki struct{ cert, key []byte } // PEM; cert has the authority's own after it

func newPKI() (p pki, err error) {
	p.cert, p.key, err = cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)},
		[]string{"kubernetes.default.svc"})
	return p, err
}

// CA returns the certificates, PEM, that clients of the API server and of all that has a ServingCertificate trust.
func (c *ControlPlane) CA() []byte { return c.pki.cert }

// ServingCertificate writes a certificate for 127.0.0.1 and its key into dir, which it makes, as tls.crt and tls.key,
// as a Secret of type kubernetes.io/tls would be mounted.
func (c *ControlPlane) ServingCertificate(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, "tls.crt"), c.pki.cert); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "tls.key"), c.pki.key)
}
