package kind

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/phasegpu/phasegpu/e2e/checkout"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// Build builds, from the checkout, what the tests run beside the cluster: kubectl-phasegpu. Call it once, before
// them.
func Build(ctx context.Context) error {
	root, err := checkout.Root()
	if err != nil {
		return err
	}
	_, err = stack.BuildKubectl(ctx, programs(root))
	return err
}

func programs(root string) string { return filepath.Join(root, "bin", "e2e") }

// Audit runs `kubectl phasegpu audit` on the cluster. Drift is an error that says what it printed. Call it when
// AwaitAudit has seen that the books are quiet.
func (c *Cluster) Audit(ctx context.Context) error { return c.audit(ctx, programs(c.Root), nil) }

// AuditAs is Audit with a token. It writes a kubeconfig into a folder.
func (c *Cluster) AuditAs(ctx context.Context, token, dir string) error {
	return c.audit(ctx, dir, &clientcmdapi.AuthInfo{Token: token})
}

// audit runs the command with a kubeconfig that it writes into a folder, as an administrator or as somebody else.
func (c *Cluster) audit(ctx context.Context, dir string, as *clientcmdapi.AuthInfo) error {
	raw, err := c.kubeconfig.RawConfig()
	if err != nil {
		return err
	}
	raw.CurrentContext = contextName
	if as != nil {
		raw.AuthInfos = map[string]*clientcmdapi.AuthInfo{raw.Contexts[contextName].AuthInfo: as}
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(raw, kubeconfig); err != nil {
		return err
	}
	kubectl := filepath.Join(programs(c.Root), "kubectl-phasegpu")
	if out, err := command(ctx, kubectl, "audit", "--kubeconfig="+kubeconfig, "--context="+contextName); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// collect has kind/artifacts keep a picture of the cluster, and says where it is.
func (s *Story) collect(ctx context.Context) {
	dir := os.Getenv("ARTIFACTS")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "phasegpu-e2e-artifacts")
	}
	dir = filepath.Join(dir, fmt.Sprintf("%s-%s", strings.ReplaceAll(s.Name(), "/", "-"),
		s.began.UTC().Format("150405")))
	if out, err := command(ctx, filepath.Join(s.Cluster.Root, "kind", "artifacts"), dir); err != nil {
		s.Errorf("no picture of the cluster is kept: %v\n%s", err, out)
		return
	}
	s.Logf("a picture of the cluster is in %s", dir)
}
