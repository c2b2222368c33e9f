package kind

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// Audit runs `kubectl phasegpu audit` on the cluster, built from the checkout. Drift is an error that says what
// it printed. Call it when AwaitAudit has seen that the books are quiet.
func (c *Cluster) Audit(ctx context.Context) error {
	dir := filepath.Join(c.Root, "bin", "e2e") // what has not changed since the last test, is not built again
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	kubectl, err := stack.BuildKubectl(ctx, dir)
	if err != nil {
		return err
	}
	kubeconfig, err := c.Kubeconfig(dir)
	if err != nil {
		return err
	}
	if out, err := command(ctx, kubectl, "audit", "--kubeconfig="+kubeconfig, "--context="+contextName); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// Kubeconfig writes a kubeconfig of the cluster into a folder, and returns its path.
func (c *Cluster) Kubeconfig(dir string) (string, error) {
	raw, err := c.kubeconfig.RawConfig()
	if err != nil {
		return "", err
	}
	raw.CurrentContext = contextName
	path := filepath.Join(dir, "kubeconfig")
	return path, clientcmd.WriteToFile(raw, path)
}

// collect has kind/artifacts keep a picture of the cluster, and says where it is.
func (s *Story) collect(ctx context.Context) {
	dir := os.Getenv("ARTIFACTS")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "phasegpu-e2e-artifacts")
	}
	dir = filepath.Join(dir, fmt.Sprintf("%s-%s", strings.ReplaceAll(s.Name(), "/", "-"), s.began.UTC().Format("150405")))
	if out, err := command(ctx, filepath.Join(s.Cluster.Root, "kind", "artifacts"), dir); err != nil {
		s.Errorf("no picture of the cluster is kept: %v\n%s", err, out)
		return
	}
	s.Logf("a picture of the cluster is in %s", dir)
}
