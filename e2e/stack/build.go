package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Programs are paths of the product's binaries.
type Programs struct {
	Webhook  string
	Extender string
}

// Build builds the product's binaries from the checkout that the working directory belongs to, into dir.
// Flags are further ones for "go build", such as -race; a later one wins.
func Build(ctx context.Context, dir string, flags ...string) (Programs, error) {
	root, err := Checkout(ctx)
	if err != nil {
		return Programs{}, err
	}
	p := Programs{filepath.Join(dir, "phasegpu-webhook"), filepath.Join(dir, "phasegpu-extender")}
	return p, errors.Join(
		build(ctx, dir, filepath.Join(root, "webhook"), flags, "phasegpu-webhook"),
		build(ctx, dir, filepath.Join(root, "extender"), flags, "phasegpu-extender"))
}

// BuildInTree builds the product's binaries and kubectl-phasegpu into bin/e2e of the checkout, where the next
// call finds what has not changed.
func BuildInTree(ctx context.Context) (p Programs, kubectl string, err error) {
	root, err := Checkout(ctx)
	if err != nil {
		return Programs{}, "", err
	}
	dir := filepath.Join(root, "bin", "e2e")
	if err := makeDir(dir); err != nil {
		return Programs{}, "", err
	}
	p, err = Build(ctx, dir)
	kubectl, kubectlErr := BuildKubectl(ctx, dir)
	return p, kubectl, errors.Join(err, kubectlErr)
}

// BuildKubectl builds kubectl-phasegpu into dir and returns its path.
func BuildKubectl(ctx context.Context, dir string) (string, error) {
	root, err := Checkout(ctx)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "kubectl-phasegpu"), build(ctx, dir, filepath.Join(root, "extender"), nil, "kubectl-phasegpu")
}

// build builds a module's command into dir.
func build(ctx context.Context, dir, module string, flags []string, name string) error {
	args := append([]string{"build", "-ldflags=-s -w", "-o", filepath.Join(dir, name)}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+name)...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return nil
}

// Checkout finds the root of the checkout that the working directory belongs to.
func Checkout(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-find", "-f", "{{.Dir}}", "github.com/phasegpu/phasegpu/e2e/stack").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("cannot find the sources of phasegpu; run this inside a checkout: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "..", ".."), nil
}

// absent reports whether no programs are named.
func (p Programs) absent() bool { return p == Programs{} }

func makeDir(path string) error { return os.MkdirAll(path, 0o755) }
