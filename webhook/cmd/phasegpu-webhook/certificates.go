package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/gen/process"
	"github.com/phasegpu/phasegpu/webhook/internal/selfsigned"
)

// certificates is the command `phasegpu-webhook certificates`, for clusters without cert-manager: it makes or renews
// the serving certificate of one Service, once or until ctx ends.
func certificates(ctx context.Context, args []string, stderr io.Writer) error {
	s, every, o, err := parseCertificates(args, stderr)
	if err != nil {
		return err
	}
	log, err := o.Logger(stderr)
	if err != nil {
		return err
	}
	if s.Client, err = o.Client(name, 0, 0); err != nil {
		return err
	}
	return keepRenewed(ctx, s, every, log)
}

// keepRenewed renews a certificate once, or, with every above 0, until ctx ends or a renewal fails; kubelet then
// restarts the container.
func keepRenewed(ctx context.Context, s *selfsigned.Service, every time.Duration, log *zap.Logger) error {
	for first := true; ; first = false {
		changed, err := renew(ctx, s)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("serving certificate of %s: %w", s.Host, err)
		case first || changed:
			log.Info("checked the serving certificate", zap.String("host", s.Host), zap.Bool("changed", changed))
		}
		if every == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

func renew(ctx context.Context, s *selfsigned.Service) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.Renew(ctx, time.Now())
}

func parseCertificates(args []string, out io.Writer) (*selfsigned.Service, time.Duration, process.Options, error) {
	var o process.Options
	var every time.Duration
	s := &selfsigned.Service{}
	flags := o.Flags(name+" certificates", out)
	object := func(to *selfsigned.Name) func(string) error {
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
	flags.Func("secret", "`namespace/name` of the Secret that the server reads", object(&s.Secret))
	flags.StringVar(&s.Webhook, "trust-webhook", "",
		"`name` of the MutatingWebhookConfiguration whose caBundle is to trust the certificate")
	flags.Func("trust-configmap", "`namespace/name` of the ConfigMap whose key ca.crt is to trust it",
		object(&s.ConfigMap))
	flags.DurationVar(&every, "every", 0, "`time` between checks; 0 to check once and end")
	if err := process.Parse(flags, args); err != nil {
		return nil, 0, o, err
	}
	switch {
	case every < 0:
		return nil, 0, o, fmt.Errorf("--every=%v: must not be negative", every)
	case s.Host == "" || s.Secret.Name == "":
		return nil, 0, o, errors.New("--host and --secret are needed")
	case (s.Webhook == "") == (s.ConfigMap.Name == ""):
		return nil, 0, o, errors.New("one of --trust-webhook and --trust-configmap is needed")
	}
	return s, every, o, nil
}
