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
	webhook, err := build(ctx, dir, "webhook", "phasegpu-webhook", flags...)
	if err != nil {
		return Programs{}, err
	}
	extender, err := build(ctx, dir, "extender", "phasegpu-extender", flags...)
	return Programs{webhook, extender}, err
}

// BuildInTree builds the product's binaries and kubectl-phasegpu into bin/e2e of the checkout, where the next
// call finds what has not changed.
func BuildInTree(ctx context.Context) (p Programs, kubectl string, err error) {
	root, err := checkout(ctx)
	if err != nil {
		return Programs{}, "", err
	}
	dir := filepath.Join(root, "bin", "e2e")
	if err := makeDir(dir); err != nil {
		return Programs{}, "", err
	}
	if p, err = Build(ctx, dir); err != nil {
		return Programs{}, "", err
	}
	kubectl, err = build(ctx, dir, "extender", "kubectl-phasegpu")
	return p, kubectl, err
}

// build builds a module's command into dir and returns its path.
func build(ctx context.Context, dir, module, name string, flags ...string) (path string, err error) {
	root, err := checkout(ctx)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, name)
	args := append([]string{"build", "-ldflags=-s -w", "-o", path}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+name)...)
	cmd.Dir = filepath.Join(root, module)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// checkout finds the root of the checkout that the working directory belongs to.
func checkout(ctx context.Context) (string, error) {
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
