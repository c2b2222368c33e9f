package stack

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/phasegpu/phasegpu/e2e/checkout"
)

// Programs are paths of the product's binaries.
type Programs struct {
	Webhook  string
	Extender string
}

// Build builds the product's binaries from the checkout that the working directory is in, into dir, which it makes.
// Flags are further ones for "go build", such as -race; a later one wins.
func Build(ctx context.Context, dir string, flags ...string) (Programs, error) {
	p := Programs{filepath.Join(dir, "phasegpu-webhook"), filepath.Join(dir, "phasegpu-extender")}
	return p, errors.Join(
		build(ctx, dir, "webhook", flags, "phasegpu-webhook"),
		build(ctx, dir, "extender", flags, "phasegpu-extender"))
}

// BuildInTree builds the product's binaries and kubectl-phasegpu into bin/e2e of the checkout, where the next
// call finds what has not changed.
func BuildInTree(ctx context.Context) (p Programs, kubectl string, err error) {
	root, err := checkout.Root()
	if err != nil {
		return Programs{}, "", err
	}
	dir := filepath.Join(root, "bin", "e2e")
	p, err = Build(ctx, dir)
	kubectl, kubectlErr := BuildKubectl(ctx, dir)
	return p, kubectl, errors.Join(err, kubectlErr)
}

// BuildKubectl builds kubectl-phasegpu into dir and returns its path.
func BuildKubectl(ctx context.Context, dir string) (string, error) {
	return filepath.Join(dir, "kubectl-phasegpu"), build(ctx, dir, "extender", nil, "kubectl-phasegpu")
}

// build builds a module's command into dir, which it makes.
func build(ctx context.Context, dir, module string, flags []string, name string) error {
	root, err := checkout.Root()
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	args := append([]string{"build", "-ldflags=-s -w", "-o", dir + "/"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+name)...)
	cmd.Dir = filepath.Join(root, module)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return nil
}
