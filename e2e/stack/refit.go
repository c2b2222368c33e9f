package stack

import (
	"context"
	"path/filepath"

	"github.com/phasegpu/phasegpu/e2e/process"
)

// Refit is the refit service on a stack.
type Refit struct {
	Process *process.Process
	URL     string // base URL; the stack's CA signed its certificate
	Health  string // base URL of /readyz and /metrics
}

// StartRefit builds the refit service, installs its manifests and the device plugin's account, and starts it
// with the rights of its own. Whoever starts it ends the process.
func (s *Stack) StartRefit(ctx context.Context) (*Refit, error) {
	root, err := Checkout(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, "numarefit")
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	if err := build(ctx, dir, filepath.Join(root, "numarefit"), nil, "phasegpu-numarefit"); err != nil {
		return nil, err
	}
	objects, err := readBase(filepath.Join(root, "numarefit", "manifests"))
	if err != nil {
		return nil, err
	}
	plugin, err := readObjects(filepath.Join(root, "deviceplugin", "manifests", "rbac.yaml"))
	if err != nil {
		return nil, err
	}
	installer, err := NewInstaller(s.Admin())
	if err != nil {
		return nil, err
	}
	if err := s.Namespace(ctx, NodeNamespace); err != nil {
		return nil, err
	}
	for _, o := range append(objects, plugin...) {
		if runsAsProcess(o) {
			continue
		}
		if err := installer.Create(ctx, o); err != nil {
			return nil, err
		}
	}
	config, err := s.ServiceAccount(ctx, SystemNamespace, "phasegpu-numarefit")
	if err != nil {
		return nil, err
	}
	kubeconfig, err := s.Kubeconfig("phasegpu-numarefit", config)
	if err != nil {
		return nil, err
	}
	if err := s.ServingCertificate(dir, "127.0.0.1"); err != nil {
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
