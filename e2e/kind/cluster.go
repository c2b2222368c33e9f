package kind

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/phasegpu/phasegpu/e2e/checkout"
	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/process"
	"github.com/phasegpu/phasegpu/e2e/stack"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Nodes and cards of the cluster, as kind/ declares them. Worker3 is tainted: it takes the pods that are about
// NUMA nodes, and no others.
const (
	ControlPlane = "phasegpu-control-plane"
	Worker       = "phasegpu-worker"
	Worker2      = "phasegpu-worker2"
	Worker3      = "phasegpu-worker3"

	CardA = "GPU-w1-a" // of Worker: 24576 MiB
	CardB = "GPU-w1-b" // of Worker: 24576 MiB
	CardC = "GPU-w2-a" // of Worker2: 40960 MiB
	CardD = "GPU-w3-a" // of Worker3, NUMA node 0: 40960 MiB
	CardE = "GPU-w3-b" // of Worker3, NUMA node 1: 40960 MiB
)

// Numbers of the cards, in MiB.
const (
	CardMiB  = 24576 // CardA and CardB
	CardCMiB = 40960
)

const (
	clusterName = "phasegpu"
	contextName = "kind-" + clusterName
)

// Cluster is the running kind cluster.
type Cluster struct {
	stack.Cluster
	Config *rest.Config // of an administrator, without a limit of requests
	Root   string       // of the checkout

	kubeconfig clientcmd.ClientConfig
}

// Connect finds the cluster by context kind-phasegpu in the usual kubeconfigs, or asks kind for it.
func Connect(ctx context.Context) (*Cluster, error) {
	root, err := checkout.Root()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Root: root}
	c.kubeconfig = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{CurrentContext: contextName})
	if raw, err := c.kubeconfig.RawConfig(); err != nil || raw.Contexts[contextName] == nil {
		text, err := command(ctx, filepath.Join(c.Root, "kind", "kind"), "get", "kubeconfig", "--name", clusterName)
		if err != nil {
			return nil, fmt.Errorf("there is no cluster %q: run make kind-up: %w", clusterName, err)
		}
		if c.kubeconfig, err = clientcmd.NewClientConfigFromBytes([]byte(text)); err != nil {
			return nil, fmt.Errorf("kubeconfig of cluster %q: %w", clusterName, err)
		}
	}
	if c.Config, err = c.kubeconfig.ClientConfig(); err != nil {
		return nil, fmt.Errorf("kubeconfig of cluster %q: %w", clusterName, err)
	}
	c.Config.QPS = -1
	c.Page = c.leaderPage
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return c, err
}

// Leader returns the name of the pod whose scheduler and extender bind at the moment.
func (c *Cluster) Leader(ctx context.Context) (string, error) {
	lease, err := c.Client.CoordinationV1().Leases(stack.SystemNamespace).Get(ctx, stack.SchedulerName,
		metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", fmt.Errorf("no scheduler holds Lease %s/%s", lease.Namespace, lease.Name)
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_") // host name, which is the pod's, and a random part
	return pod, nil
}

// leaderPage reads a page of the extender that leads. The other's books lack what is assumed.
func (c *Cluster) leaderPage(ctx context.Context, path string) ([]byte, error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return nil, err
	}
	return c.PodPage(ctx, stack.SystemNamespace, leader, 8080, path)
}

// PodPage reads a page that a pod serves at a port, through the API server.
func (c *Cluster) PodPage(ctx context.Context, namespace, pod string, port int, path string) ([]byte, error) {
	body, err := c.Client.CoreV1().Pods(namespace).ProxyGet("http", pod, fmt.Sprint(port), path, nil).DoRaw(ctx)
	if err != nil {
		err = fmt.Errorf("%s of pod %s: %w: %s", path, pod, err, body)
	}
	return body, err
}

// Nodes returns the nodes with devices, as their inventories and kubelets tell.
func (c *Cluster) Nodes(ctx context.Context) ([]nodesim.Node, error) {
	list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var nodes []nodesim.Node
	for i := range list.Items {
		n := kube.Node(&list.Items[i])
		if n.Unreadable != "" {
			return nil, fmt.Errorf("node %s: %s", n.Name, n.Unreadable)
		}
		if len(n.Devices) > 0 {
			nodes = append(nodes, nodesim.Node{Name: n.Name, Devices: n.Devices})
		}
	}
	return nodes, nil
}

// SystemPods returns the pods of one of our workloads, by its label app.kubernetes.io/name: "phasegpu-webhook",
// "phasegpu-scheduler", "phasegpu-device-plugin".
func (c *Cluster) SystemPods(ctx context.Context, name string) ([]corev1.Pod, error) {
	list, err := c.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// command runs a program and returns what it prints. Its standard error is in the error.
func command(ctx context.Context, name string, args ...string) (string, error) {
	return process.Output(exec.CommandContext(ctx, name, args...))
}
