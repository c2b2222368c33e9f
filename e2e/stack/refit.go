package stack

import (
	"context"
	"path/filepath"

	"github.com/phasegpu/phasegpu/e2e/checkout"
	"github.com/phasegpu/phasegpu/e2e/process"
)

// Refit is the refit service on a stack.
type Refit struct {
	Process *process.Process
	URL     string // base URL; the stack's CA signed its certificate
	Health  string // base URL of /readyz and /metrics
}

// StartRefit builds the refit service, installs its manifests and the device plugin's, and starts it with the rights of
// its own service account. The caller ends the process.
func (s *Stack) StartRefit(ctx context.Context) (*Refit, error) {
	root, err := checkout.Root()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, "numarefit")
	if err := s.ServingCertificate(dir); err != nil {
		return nil, err
	}
	if err := build(ctx, dir, "numarefit", nil, "phasegpu-numarefit"); err != nil {
		return nil, err
	}
	if err := s.Namespace(ctx, NodeNamespace); err != nil {
		return nil, err
	}
	if err := s.install(ctx, root, "numarefit/manifests", "deviceplugin/manifests"); err != nil {
		return nil, err
	}
	kubeconfig, err := s.accountKubeconfig(ctx, "phasegpu-numarefit")
	if err != nil {
		return nil, err
	}
	r := &Refit{}
	err = process.WithPorts(2, func(ports []int) error {
		r.URL, r.Health = "https://"+process.Loopback(ports[0]), "http://"+process.Loopback(ports[1])
		r.Process = s.process("phasegpu-numarefit", filepath.Join(dir, "phasegpu-numarefit"), r.Health, []string{
			"--kubeconfig=" + kubeconfig,
			"--listen=" + process.Loopback(ports[0]),
			"--health-listen=" + process.Loopback(ports[1]),
			"--tls-cert-file=" + filepath.Join(dir, "tls.crt"),
			"--tls-key-file=" + filepath.Join(dir, "tls.key"),
			"--drain=0s",
		})
		return r.Process.Start(ctx)
	})
	return r, err
}
