// Package selfsigned makes serving certificates that are their own CA, and renews them so that a server never presents
// a certificate that its clients do not trust yet.
//
// There is no CA key to keep. A certificate that is due gets a successor, which is first added to what clients trust; a
// later run presents it, once it has been trusted for an hour. A successor that never got there is replaced. What a run
// does depends only on what it finds, so it may be repeated, or end half way, at any time.
package selfsigned

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"time"
)

const (
	lifetime = 90 * 24 * time.Hour
	renewal  = 30 * 24 * time.Hour // before a certificate ends
	// propagation is how long a successor is trusted before it is presented: kubelet takes a minute or two to bring a
	// changed ConfigMap to pods.
	propagation = time.Hour
	skew        = 5 * time.Minute // of clocks
)

// Pair is a certificate and its key, PEM. The zero Pair is none.
type Pair struct{ Cert, Key []byte }

// State is what the server and its clients have.
type State struct {
	Current Pair // presented by the server
	Next    Pair // its successor, or none
	Trusted []byte
}

// Advance returns what they should have, for a server of that host name.
func Advance(s State, host string, now time.Time) (State, error) {
	var err error
	current, next := usable(s.Current, host, now), usable(s.Next, host, now)
	switch {
	case current == nil && next != nil:
		s.Current, s.Next = s.Next, Pair{}
	case current == nil:
		s.Current, err = issue(host, now)
		s.Next = Pair{}
	case !due(current, now):
	case next == nil || due(next, now) || !slices.ContainsFunc(certificates(s.Trusted), next.Equal):
		s.Next, err = issue(host, now) // its age is how long it has been trusted
	case now.After(next.NotBefore.Add(skew + propagation)):
		s.Current, s.Next = s.Next, Pair{}
	}
	s.Trusted = trusted(now, s.Trusted, s.Current.Cert, s.Next.Cert)
	return s, err
}

// usable returns the certificate of a pair if a server of that name can present it now, else nil.
func usable(p Pair, host string, now time.Time) *x509.Certificate {
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil || pair.Leaf.VerifyHostname(host) != nil {
		return nil
	}
	if now.Before(pair.Leaf.NotBefore) || !now.Before(pair.Leaf.NotAfter) {
		return nil
	}
	return pair.Leaf
}

func due(c *x509.Certificate, now time.Time) bool { return now.After(c.NotAfter.Add(-renewal)) }

// trusted returns the certificates in these texts that have not expired, each once. Earlier ones stay, because a server
// may still present them for a while.
func trusted(now time.Time, texts ...[]byte) []byte {
	var all []*x509.Certificate
	var text bytes.Buffer
	for _, c := range certificates(bytes.Join(texts, []byte("\n"))) {
		if now.Before(c.NotAfter) && !slices.ContainsFunc(all, c.Equal) {
			all = append(all, c)
			text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
		}
	}
	return text.Bytes()
}

// certificates returns the certificates in a PEM text, without what is invalid.
func certificates(text []byte) []*x509.Certificate {
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
}

// issue makes a pair. Its key cannot sign other certificates that clients would trust.
func issue(host string, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: host, Organization: []string{"phasegpu"}},
		DNSNames:              []string{host},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate for %s: %w", host, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}
