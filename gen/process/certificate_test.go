package process

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// pair is a certificate for localhost that is its own CA, and its key, in PEM.
type pair struct{ cert, key []byte }

func newPair(t *testing.T, serial int64, notAfter time.Time) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(serial),
		Subject:               pkix.Name{CommonName: "localhost"},
		DNSNames:              []string{"localhost"},
		NotBefore:             notAfter.Add(-24 * time.Hour),
		NotAfter:              notAfter,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}
}

// files are a certificate's two files.
type files struct{ cert, key string }

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f files) write(t *testing.T, p pair) {
	t.Helper()
	write(t, f.cert, p.cert)
	write(t, f.key, p.key)
}

// handshake returns the serial of the certificate that a server shows, or the error of a client that
// trusts p.
func handshake(t *testing.T, config *tls.Config, p pair, version uint16) (serial int64, err error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.cert)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			tls.Server(conn, config).Handshake()
			conn.Close()
		}
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{
		RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS10, MaxVersion: version,
	})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func TestCertificateIsReplacedWithoutARestart(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	f := newFiles(t)
	c := NewCertificate(f.cert, f.key, zap.New(core))
	soon := time.Now().Add(time.Hour)
	first, second := newPair(t, 1, soon), newPair(t, 2, soon)

	steps := []struct {
		what     string
		do       func()
		trusts   pair
		want     int64 // 0 for no certificate
		warnings int   // so far
	}{
		{"no files yet", func() {}, first, 0, 0},
		{"the first pair", func() { f.write(t, first) }, first, 1, 0},
		{"a certificate without its key", func() { write(t, f.cert, second.cert) }, first, 1, 1},
		{"the same at the next handshake", func() {}, first, 1, 1},
		{"half a certificate", func() { write(t, f.cert, second.cert[:100]) }, first, 1, 2},
		{"an empty certificate", func() { write(t, f.cert, nil) }, first, 1, 2}, // the same error in crypto/tls
		{"the second pair", func() { f.write(t, second) }, second, 2, 2},
		{"the key gone", func() { os.Remove(f.key) }, second, 2, 3},
		{"the first pair again", func() { f.write(t, first) }, first, 1, 3},
		{"the key gone again", func() { os.Remove(f.key) }, first, 1, 4},
	}
	for _, step := range steps {
		step.do()
		got, err := handshake(t, c.TLS(), step.trusts, 0)
		if got != step.want {
			t.Errorf("%s: shown certificate %d (%v), want %d", step.what, got, err, step.want)
		}
		if logs.Len() != step.warnings {
			t.Errorf("%s: %d warnings, want %d: %v", step.what, logs.Len(), step.warnings, logs.All())
		}
	}
}

func TestTLSIsAtLeast12(t *testing.T) {
	f := newFiles(t)
	p := newPair(t, 1, time.Now().Add(time.Hour))
	f.write(t, p)
	config := NewCertificate(f.cert, f.key, zap.NewNop()).TLS()
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		if _, err := handshake(t, config, p, version); (err == nil) != ok {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
}

func TestCertificateValid(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for name, test := range map[string]struct {
		write func(files)
		want  string // in the error; "" for none
	}{
		"missing": {func(files) {}, "no such file"},
		"garbage": {func(f files) { f.write(t, pair{[]byte("x"), []byte("y")}) }, "no serving certificate"},
		"expired": {func(f files) { f.write(t, newPair(t, 1, now.Add(-time.Minute))) }, "renew it"},
		"valid":   {func(f files) { f.write(t, newPair(t, 1, now.Add(time.Minute))) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFiles(t)
			test.write(f)
			err := NewCertificate(f.cert, f.key, zap.NewNop()).Valid()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	f := newFiles(t)
	expiry := NewCertificate(f.cert, f.key, zap.NewNop()).Expiry("e")
	if got := testutil.ToFloat64(expiry); got != 0 {
		t.Errorf("expiry without a certificate: %v", got)
	}
	f.write(t, newPair(t, 1, now.Add(time.Minute)))
	if got, want := testutil.ToFloat64(expiry), float64(now.Add(time.Minute).Unix()); got != want {
		t.Errorf("expiry %v, want %v", got, want)
	}
}
