package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/phasegpu/phasegpu/e2e/process"
)

// numPorts is how many ports configure gives to the programs.
const numPorts = 4

// configure writes keys, tokens and kubeconfigs, and describes the four processes.
func (c *ControlPlane) configure(o Options, programs []string, ports []int) error {
	etcd, peer, api, scheduler := ports[0], ports[1], ports[2], ports[3]
	c.URL = "https://" + process.Loopback(api)
	if err := c.writeCredentials(); err != nil {
		return err
	}
	c.Etcd = c.process("etcd", programs[0], c.etcdArgs(etcd, peer),
		ready(http.DefaultClient, "http://"+process.Loopback(etcd)+"/readyz"))

	admin, err := rest.HTTPClientFor(c.Admin())
	if err != nil {
		return err
	}
	args := c.apiServerArgs(api, etcd)
	if o.Audit {
		args = append(args, c.auditArgs()...)
		if err := writeFile(c.file("audit-policy.yaml"), []byte(auditPolicy)); err != nil {
			return err
		}
	}
	c.APIServer = c.process("kube-apiserver", programs[1], append(args, o.APIServerArgs...),
		ready(admin, c.URL+"/readyz"))

	// That service accounts appear, which WaitForNamespace waits for, shows that it works.
	c.ControllerManager = c.process("kube-controller-manager", programs[2], c.controllerManagerArgs(), nil)

	// Its certificate is self-signed, and not verified.
	insecure, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		return err
	}
	c.SchedulerURL = "https://" + process.Loopback(scheduler)
	c.Scheduler = c.process("kube-scheduler", programs[3], c.schedulerArgs(scheduler),
		ready(insecure, c.SchedulerURL+"/readyz"))
	return nil
}

func (c *ControlPlane) process(name, path string, args []string, ready func(context.Context) error) *process.Process {
	return &process.Process{
		Name: name, Path: path, Args: args, Ready: ready,
		Log: filepath.Join(c.LogDir(), name+".log"),
	}
}

func (c *ControlPlane) etcdArgs(client, peer int) []string {
	clientURL, peerURL := "http://"+process.Loopback(client), "http://"+process.Loopback(peer)
	return []string{
		"--name=etcd",
		"--data-dir=" + c.file("etcd"),
		"--listen-client-urls=" + clientURL,
		"--advertise-client-urls=" + clientURL,
		"--listen-peer-urls=" + peerURL,
		"--initial-advertise-peer-urls=" + peerURL,
		"--initial-cluster=etcd=" + peerURL,
		"--unsafe-no-fsync", // a power cut may take these data
		// It is alone, and elects itself at once.
		"--heartbeat-interval=10",
		"--election-timeout=100",
	}
}

func (c *ControlPlane) apiServerArgs(port, etcd int) []string {
	return []string{
		"--etcd-servers=http://" + process.Loopback(etcd),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // a Service's endpoints may not be loopback addresses
		"--service-cluster-ip-range=10.0.0.0/24",
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + c.file("pki", "apiserver.crt"),
		"--tls-private-key-file=" + c.file("pki", "apiserver.key"),
		"--cert-dir=" + c.file("pki"),
		"--token-auth-file=" + c.file("pki", "tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.file("pki", "service-accounts.key"),
		"--service-account-signing-key-file=" + c.file("pki", "service-accounts.key"),
		"--authorization-mode=RBAC",
		// Only the node lifecycle controller, which does not run here, would take the taint away again.
		"--disable-admission-plugins=TaintNodesByCondition",
		// Otherwise it waits a minute for clients that watch to go away.
		"--shutdown-watch-termination-grace-period=1s",
	}
}

func (c *ControlPlane) controllerManagerArgs() []string {
	kubeconfig := c.kubeconfigPath("kube-controller-manager")
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--service-account-private-key-file=" + c.file("pki", "service-accounts.key"),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--secure-port=0",
		"--controllers=" + strings.Join([]string{
			"namespace-controller",
			"serviceaccount-controller",
			"resourcequota-controller",
			"garbage-collector-controller",
			"clusterrole-aggregation-controller",
			"deployment-controller",
			"replicaset-controller",
			"job-controller",
		}, ","),
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--profiling=false",
	}
}

func (c *ControlPlane) schedulerArgs(port int) []string {
	// It is for the authorization of requests for metrics; the scheduler's own client is in its configuration.
	kubeconfig := c.kubeconfigPath("kube-scheduler")
	return []string{
		"--config=" + c.file("scheduler", "config.yaml"),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--cert-dir=" + c.file("scheduler"),
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
	}
}

func (c *ControlPlane) file(elements ...string) string {
	return filepath.Join(append([]string{c.Dir}, elements...)...)
}

// ready asks a health endpoint.
func ready(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := process.Get(ctx, client, url)
		return err
	}
}

func writeFile(path string, data []byte) error { return os.WriteFile(path, data, 0o600) }
