package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/core/phase"
)

func TestFlags(t *testing.T) {
	o, err := parse([]string{"--allow-scheduler=volcano", "--allow-scheduler", "kueue", "--release=hold"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"volcano", "kueue"}, o.allowSchedulers); diff != "" || o.release != phase.Hold {
		t.Errorf("schedulers (-want +got):\n%s, release %v", diff, o.release)
	}
	if o, err := parse(nil, io.Discard); err != nil || o.release != phase.PerInit || o.listen != ":8443" || o.healthListen != ":8080" {
		t.Errorf("defaults %+v, %v", o, err)
	}
}

func TestWrongFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"--allow-scheduler=":                  "empty",
		"--allow-scheduler=default-scheduler": "always becomes phasegpu's",
		"--release=never":                     "per-init, all-inits or hold",
		"--log-level=loud":                    "debug, info, warn or error",
		"--bogus":                             "bogus",
		"serve":                               `"serve"`,
		"--log-level=info":                    "--kubeconfig", // not in a pod
		"--kubeconfig=/does/not/exist":        "/does/not/exist",
	} {
		t.Run(flags, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			err := run(t.Context(), []string{flags}, io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--version"}, &out, io.Discard); err != nil || out.String() != "phasegpu-webhook dev (commit unknown)\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestCertificatesFlags(t *testing.T) {
	for args, refused := range map[string]string{
		"--host=h --secret=n/s --trust-webhook=w":                       "",
		"--host=h --secret=n/s --trust-configmap=n/c":                   "",
		"--secret=n/s --trust-webhook=w":                                "--host",
		"--host=h --trust-webhook=w":                                    "--secret",
		"--host=h --secret=s --trust-webhook=w":                         "namespace/name",
		"--host=h --secret=n/s/t --trust-webhook=w":                     "namespace/name",
		"--host=h --secret=n/s":                                         "one of",
		"--host=h --secret=n/s --trust-webhook=w --trust-configmap=n/c": "one of",
		"--host=h --secret=n/s --trust-webhook=w more":                  "more",
		"--host=h --secret=n/s --trust-webhook=w --every=-1h":           "--every",
	} {
		_, _, _, err := parseCertificates(strings.Fields(args), io.Discard)
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: error %v, want %q", args, err, refused)
		}
	}
}
