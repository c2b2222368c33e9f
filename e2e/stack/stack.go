package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/phasegpu/phasegpu/e2e/checkout"
	"github.com/phasegpu/phasegpu/e2e/controlplane"
	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/process"
)

// Names of the product that its manifests do not tell.
const (
	SystemNamespace = "phasegpu-system"
	NodeNamespace   = "phasegpu-node" // of the device plugins
	SchedulerName   = "phasegpu-scheduler"
)

// Options say what differs from the usual. The zero value is fine.
type Options struct {
	ControlPlane controlplane.Options
	Nodes        nodesim.Options
	// Programs to run; by default they are built. A package with several stacks calls Build once.
	Programs Programs
	// Arguments in addition, such as --release=hold; a later one wins.
	WebhookArgs, ExtenderArgs []string
	// Scheduler may change the KubeSchedulerConfiguration.
	Scheduler func(config map[string]any)
}

// Stack is a running cluster with phasegpu in it.
type Stack struct {
	*controlplane.ControlPlane
	Cluster
	Sim      *nodesim.Simulator
	Webhook  *process.Process
	Extender *process.Process
	Programs Programs

	// Where the API server and kube-scheduler reach the product: base URLs.
	WebhookURL, ExtenderURL string

	extenderHealth string // base URLs
	webhookHealth  string
}

// Start starts everything and returns when a pod with devices would be admitted and scheduled. ctx bounds
// the start alone.
func Start(ctx context.Context, o Options) (s *Stack, err error) {
	err = process.WithPorts(4, func(ports []int) (err error) {
		s, err = start(ctx, o, ports)
		return err
	})
	return s, err
}

func start(ctx context.Context, o Options, ports []int) (*Stack, error) {
	cp, err := controlplane.Start(ctx, o.ControlPlane)
	if err != nil {
		return nil, err
	}
	s := &Stack{ControlPlane: cp, Programs: o.Programs}
	if err := s.fill(ctx, o, ports); err != nil {
		return nil, errors.Join(fmt.Errorf("stack: %w", err), s.Stop())
	}
	return s, nil
}

// fill makes a stack of a control plane.
func (s *Stack) fill(ctx context.Context, o Options, ports []int) (err error) {
	if s.Client, err = kubernetes.NewForConfig(s.Admin()); err != nil {
		return err
	}
	if s.Sim, err = nodesim.Start(ctx, s.Admin(), o.Nodes); err != nil {
		return err
	}
	if s.Programs == (Programs{}) {
		if s.Programs, err = Build(ctx, filepath.Join(s.Dir, "bin")); err != nil {
			return err
		}
	}
	return s.launch(ctx, o, ports)
}

// launch installs the manifests and starts webhook, extender and scheduler, each with the identity and the
// rights of its own service account.
func (s *Stack) launch(ctx context.Context, o Options, ports []int) error {
	root, err := checkout.Root()
	if err != nil {
		return err
	}
	webhook, webhookHealth, extender, extenderHealth := ports[0], ports[1], ports[2], ports[3]
	s.webhookHealth = "http://" + process.Loopback(webhookHealth)
	s.extenderHealth = "http://" + process.Loopback(extenderHealth)
	s.Page = func(ctx context.Context, path string) ([]byte, error) {
		return process.Get(ctx, http.DefaultClient, s.extenderHealth+path)
	}
	s.WebhookURL, s.ExtenderURL = "https://"+process.Loopback(webhook), "http://"+process.Loopback(extender)
	if err := s.Namespace(ctx, SystemNamespace); err != nil {
		return err
	}
	if err := s.install(ctx, root, "webhook/manifests", "extender/manifests"); err != nil {
		return err
	}
	webhookKubeconfig, err := s.accountKubeconfig(ctx, "phasegpu-webhook")
	if err != nil {
		return err
	}
	extenderKubeconfig, err := s.accountKubeconfig(ctx, "phasegpu-extender")
	if err != nil {
		return err
	}
	certificates := filepath.Join(s.Dir, "webhook")
	if err := s.ServingCertificate(certificates); err != nil {
		return err
	}
	s.Webhook = s.process("phasegpu-webhook", s.Programs.Webhook, s.webhookHealth, append([]string{
		"--kubeconfig=" + webhookKubeconfig,
		"--listen=" + process.Loopback(webhook),
		"--health-listen=" + process.Loopback(webhookHealth),
		"--tls-cert-file=" + filepath.Join(certificates, "tls.crt"),
		"--tls-key-file=" + filepath.Join(certificates, "tls.key"),
		"--drain=0s", // no load balancer sends requests to it
	}, o.WebhookArgs...))
	s.Extender = s.process("phasegpu-extender", s.Programs.Extender, s.extenderHealth, append([]string{
		"--kubeconfig=" + extenderKubeconfig,
		"--listen=" + process.Loopback(extender),
		"--metrics-listen=" + process.Loopback(extenderHealth),
	}, o.ExtenderArgs...))
	config, err := schedulerConfig(root, s.ExtenderURL, extenderKubeconfig, o.Scheduler)
	if err != nil {
		return err
	}
	if err := Together(
		func() error { return s.Webhook.Start(ctx) },
		func() error { return s.Extender.Start(ctx) },
		func() error { return s.StartScheduler(ctx, config) },
	); err != nil {
		return err
	}
	return s.waitForAdmission(ctx)
}

// install creates the objects of kustomizations, but for those of pods.
func (s *Stack) install(ctx context.Context, root string, dirs ...string) error {
	installer, err := NewInstaller(s.Admin())
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		objects, err := Kustomize(root, dir)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if runsAsProcess(o) {
				continue
			}
			if o.GetKind() == "MutatingWebhookConfiguration" {
				if err := pointAt(o, s.WebhookURL, s.CA()); err != nil {
					return err
				}
			}
			if err := installer.Create(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// accountKubeconfig writes a kubeconfig of one of phasegpu's service accounts and returns its path.
func (s *Stack) accountKubeconfig(ctx context.Context, account string) (string, error) {
	config, err := s.ServiceAccount(ctx, SystemNamespace, account)
	if err != nil {
		return "", err
	}
	return s.Kubeconfig(account, config)
}

func (s *Stack) process(name, path, health string, args []string) *process.Process {
	return &process.Process{
		Name: name, Path: path, Args: args, Log: filepath.Join(s.LogDir(), name+".log"),
		Ready: func(ctx context.Context) error {
			_, err := process.Get(ctx, http.DefaultClient, health+"/readyz")
			return err
		},
	}
}

// waitForAdmission waits until the API server has learned of the webhook and of the policy, which it does a
// moment after they are stored. What it asks is a dry run.
func (s *Stack) waitForAdmission(ctx context.Context) error {
	return Eventually(ctx, "the API server asks the webhook and obeys the policy", func(ctx context.Context) error {
		pod := NewPod("default", "probe", App("app", GPU(1, 1)))
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		admitted, err := s.Client.CoreV1().Pods("default").Create(ctx, pod, dry)
		if err != nil {
			return err
		}
		if admitted.Spec.SchedulerName != SchedulerName {
			return fmt.Errorf("SchedulerName of a pod with devices is %q", admitted.Spec.SchedulerName)
		}
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "probe", Annotations: map[string]string{
				"hami.io/vgpu-devices-allocated": ";",
			}},
			Target: corev1.ObjectReference{Kind: "Node", Name: "probe"},
		}
		err = s.Client.CoreV1().Pods("default").Bind(ctx, binding, dry)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "phasegpu-records") {
			return fmt.Errorf("a forged record is not refused: %v", err)
		}
		return nil
	})
}

// Stop ends everything and removes what is temporary. It returns what went wrong in the simulation of
// nodes. It may be called again.
func (s *Stack) Stop() error {
	var errs []error
	for _, p := range []*process.Process{s.Extender, s.Webhook} {
		if p != nil {
			errs = append(errs, p.Kill())
		}
	}
	if s.Sim != nil {
		errs = append(errs, s.Sim.Stop())
	}
	return errors.Join(append(errs, s.ControlPlane.Stop())...)
}

// WriteLogs writes the end of each program's log.
func (s *Stack) WriteLogs(w io.Writer) {
	s.ControlPlane.WriteLogs(w)
	for _, p := range []*process.Process{s.Extender, s.Webhook} {
		if p != nil {
			fmt.Fprintf(w, "--- end of the log of %s\n%s\n", p.Name, p.Tail())
		}
	}
}
