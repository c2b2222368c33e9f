package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/webhook/internal/selfsigned"
	"github.com/phasegpu/phasegpu/webhook/internal/server"
)

// certificates is the command `phasegpu-webhook certificates`: makes or renews the serving certificate of one
// Service, where no cert-manager does.
func certificates(ctx context.Context, args []string, stderr io.Writer) error {
	s, o, err := parseCertificates(args, stderr)
	if err != nil {
		return err
	}
	log, err := server.Logger(o.logLevel, stderr)
	if err != nil {
		return err
	}
	if s.Client, err = connect(o.kubeconfig); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	changed, err := s.Renew(ctx, time.Now())
	if err != nil {
		return fmt.Errorf("serving certificate of %s: %w", s.Host, err)
	}
	log.Info("looked after the serving certificate", zap.String("host", s.Host), zap.Bool("changed", changed))
	return nil
}

func parseCertificates(args []string, out io.Writer) (*selfsigned.Service, options, error) {
	var o options
	s := &selfsigned.Service{}
	flags := flag.NewFlagSet("phasegpu-webhook certificates", flag.ContinueOnError)
	flags.SetOutput(out)
	name := func(to *selfsigned.Name) func(string) error {
		return func(value string) error {
			namespace, name, ok := strings.Cut(value, "/")
			if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
				return fmt.Errorf("%q is not namespace/name", value)
			}
			*to = selfsigned.Name{Namespace: namespace, Name: name}
			return nil
		}
	}
	flags.StringVar(&s.Host, "host", "", "`name` by which clients call the server")
	flags.Func("secret", "`namespace/name` of the Secret that the server reads", name(&s.Secret))
	flags.StringVar(&s.Webhook, "trust-webhook", "", "`name` of the MutatingWebhookConfiguration whose caBundle is to trust the certificate")
	flags.Func("trust-configmap", "`namespace/name` of the ConfigMap whose key ca.crt is to trust it", name(&s.ConfigMap))
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; without one, the service account of the pod that this runs in")
	flags.StringVar(&o.logLevel, "log-level", "info", "`level` from which to log: debug, info, warn or error")
	if err := flags.Parse(args); err != nil {
		return nil, o, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, o, fmt.Errorf("unexpected argument %q: flags begin with --", flags.Arg(0))
	case s.Host == "" || s.Secret.Name == "":
		return nil, o, errors.New("--host and --secret are needed")
	case (s.Webhook == "") == (s.ConfigMap.Name == ""):
		return nil, o, errors.New("one of --trust-webhook and --trust-configmap is needed")
	}
	return s, o, nil
}
