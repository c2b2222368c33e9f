package server

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

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
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS10, MaxVersion: version})
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
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	f := newFiles(t)
	f.write(t, newPair(t, 1, now.Add(time.Minute)))
	got, err := NewCertificate(f.cert, f.key, zap.NewNop()).NotAfter()
	if diff := cmp.Diff(now.Add(time.Minute).UTC(), got.UTC()); diff != "" || err != nil {
		t.Errorf("NotAfter (-want +got): %s, %v", diff, err)
	}
}
