package deploy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/phasegpu/phasegpu/e2e/checkout"
	"github.com/phasegpu/phasegpu/e2e/controlplane"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

const system, node = stack.SystemNamespace, stack.NodeNamespace

// site is a control plane on which deploy/ is installed.
type site struct {
	*controlplane.ControlPlane
	stack.Cluster
	installer *stack.Installer
	objects   []*unstructured.Unstructured
	warnings  *warnings
}

// TestInstall installs deploy/ on a real API server, looks at what is there, and takes it off.
func TestInstall(t *testing.T) {
	root, err := checkout.Root()
	must(t, err)
	s := &site{ControlPlane: controlplane.StartT(t, controlplane.Options{}), warnings: &warnings{}}
	s.Client, err = kubernetes.NewForConfig(s.Admin())
	must(t, err)
	config := s.Admin()
	config.WarningHandler = s.warnings
	s.installer, err = stack.NewInstaller(config)
	must(t, err)
	s.objects, err = stack.Kustomize(root, "deploy")
	must(t, err)

	t.Run("the API server takes it", s.applies)
	t.Run("Pod Security is obeyed", s.podSecurity)
	t.Run("a wrong tag is corrected", s.corrected)
	t.Run("certificates", s.certificates)
	t.Run("the certificates' account", s.certificatesAccount)
	t.Run("applied again", s.again)
	t.Run("a device plugin's token", s.pluginToken)
	t.Run("an auditor", s.auditor)
	t.Run("nothing is left", s.uninstall)
}

// First a dry run of all that needs not the namespaces, then in earnest; without a word of warning.
func (s *site) applies(t *testing.T) {
	for _, o := range s.objects {
		if o.GetKind() == "Namespace" || o.GetNamespace() == "" {
			must(t, s.installer.Apply(t.Context(), o, metav1.DryRunAll))
		}
	}
	for _, o := range s.objects {
		must(t, s.installer.Apply(t.Context(), o))
	}
	if said := s.warnings.all(); len(said) > 0 {
		t.Errorf("the API server warns: %q", said)
	}
	for _, namespace := range []string{system, node} {
		must(t, s.Namespace(t.Context(), namespace)) // its default service account is there
	}
}

// Images whose tag was wrong, so that no pod could start, get another by being applied again, and that is all.
func (s *site) corrected(t *testing.T) {
	for _, tag := range []string{"wrong", "dev"} {
		for _, o := range s.objects {
			text, err := o.MarshalJSON()
			must(t, err)
			tagged := &unstructured.Unstructured{}
			must(t, tagged.UnmarshalJSON(image.ReplaceAll(text, []byte(`"image":"$1:`+tag+`"`))))
			if err := s.installer.Apply(t.Context(), tagged); err != nil {
				t.Errorf("with tag %s: %s %s: %v", tag, o.GetKind(), o.GetName(), err)
			}
		}
	}
}

// image is one of phasegpu's, in JSON.
var image = regexp.MustCompile(`"image":"(phasegpu-[a-z-]+):dev"`)

// Every workload's pod is let into its namespace, and the device plugin's into no other.
func (s *site) podSecurity(t *testing.T) {
	for _, w := range workloads(t, s.objects) {
		must(t, s.DryRun(t.Context(), pod(w, w.Namespace)))
		if w.Name == "phasegpu-device-plugin" {
			moved := pod(w, system)
			moved.Spec.ServiceAccountName = "phasegpu-webhook"
			if err := s.DryRun(t.Context(), moved); !apierrors.IsForbidden(err) ||
				!strings.Contains(err.Error(), "hostPath") {
				t.Errorf("%s in namespace %s: %v", w.Name, system, err)
			}
		}
	}
}

func pod(w Workload, namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: w.Name, Labels: w.Template.Labels},
		Spec: w.Template.Spec}
}

// The containers that make certificates, run with their rights, give webhook and refit service certificates that
// their clients trust.
func (s *site) certificates(t *testing.T) {
	programs, err := stack.Build(t.Context(), t.TempDir())
	must(t, err)
	config, err := s.ServiceAccount(t.Context(), system, certificates)
	must(t, err)
	kubeconfig, err := s.Kubeconfig("certificates", config)
	must(t, err)
	ran := 0
	for _, w := range workloads(t, s.objects) {
		for _, c := range w.Template.Spec.Containers {
			if w.Name != certificates {
				continue
			}
			ran++
			args := append(slices.Clone(c.Args), "--kubeconfig="+kubeconfig, "--every=0")
			must(t, stack.Eventually(t.Context(), "its rights are obeyed", func(ctx context.Context) error {
				if out, err := exec.CommandContext(ctx, programs.Webhook, args...).CombinedOutput(); err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				return nil
			}))
			if out, err := exec.CommandContext(t.Context(), programs.Webhook, args...).CombinedOutput(); err != nil ||
				!strings.Contains(string(out), `"changed":false`) {
				t.Errorf("a second run: %v\n%s", err, out)
			}
		}
	}
	if ran != 2 {
		t.Errorf("%d containers", ran)
	}
	webhook, refit := s.trusted(t)
	for secret, bundle := range map[string]string{"phasegpu-webhook": webhook, "phasegpu-numarefit-tls": refit} {
		shown, err := s.Client.CoreV1().Secrets(system).Get(t.Context(), secret, metav1.GetOptions{})
		must(t, err)
		pair, err := tls.X509KeyPair(shown.Data["tls.crt"], shown.Data["tls.key"])
		must(t, err)
		if string(shown.Data["tls.crt"]) != bundle {
			t.Errorf("Secret %s has another certificate than is trusted", secret)
		}
		host := strings.TrimSuffix(secret, "-tls") + "." + system + ".svc"
		if err := pair.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}

// trusted returns what the API server and the device plugins trust.
func (s *site) trusted(t *testing.T) (webhook, refit string) {
	t.Helper()
	c, err := s.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "phasegpu-webhook",
		metav1.GetOptions{})
	must(t, err)
	m, err := s.Client.CoreV1().ConfigMaps(node).Get(t.Context(), "phasegpu-numarefit-ca", metav1.GetOptions{})
	must(t, err)
	return string(c.Webhooks[0].ClientConfig.CABundle), m.Data["ca.crt"]
}

// With their token one can change the CA bundles, and nothing else of the webhook, nor read other Secrets.
func (s *site) certificatesAccount(t *testing.T) {
	config, err := s.ServiceAccount(t.Context(), system, certificates)
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	configurations := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	now, err := configurations.Get(t.Context(), "phasegpu-webhook", metav1.GetOptions{})
	must(t, err)
	elsewhere := now.DeepCopy()
	elsewhere.Webhooks[0].ClientConfig.Service.Namespace = "team"
	must(t, stack.Eventually(t.Context(), "the policy is obeyed", func(ctx context.Context) error {
		if _, err := configurations.Update(ctx, elsewhere,
			metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the webhook may be sent elsewhere: %v", err)
		}
		return nil
	}))
	ignoring, all, labelled := now.DeepCopy(), now.DeepCopy(), now.DeepCopy()
	*ignoring.Webhooks[0].FailurePolicy = "Ignore"
	all.Webhooks[0].MatchConditions = nil
	labelled.Labels["a"] = "b"
	ctx, secrets := t.Context(), client.CoreV1().Secrets(system)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	for what, err := range map[string]error{
		"failure policy":   second(configurations.Update(ctx, ignoring, metav1.UpdateOptions{})),
		"match conditions": second(configurations.Update(ctx, all, metav1.UpdateOptions{})),
		"labels":           second(configurations.Update(ctx, labelled, metav1.UpdateOptions{})),
		"deletion":         configurations.Delete(ctx, "phasegpu-webhook", metav1.DeleteOptions{}),
		"other secrets":    second(secrets.List(ctx, metav1.ListOptions{})),
		"a new secret":     second(secrets.Create(ctx, secret, metav1.CreateOptions{})),
		"pods":             second(client.CoreV1().Pods(system).List(ctx, metav1.ListOptions{})),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	dry := metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}
	now.Webhooks[0].ClientConfig.CABundle = append(now.Webhooks[0].ClientConfig.CABundle, '\n')
	if _, err := configurations.Update(ctx, now, dry); err != nil {
		t.Errorf("the caBundle: %v", err)
	}
}

// An upgrade applies all anew. What was written into Secrets stays, and so do pods that need not change.
func (s *site) again(t *testing.T) {
	generations := func() map[string]int64 {
		all := map[string]int64{}
		list, err := s.Client.AppsV1().Deployments(system).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for _, d := range list.Items {
			all[d.Name] = d.Generation
		}
		return all
	}
	before := generations()
	webhook, refit := s.trusted(t)
	for _, o := range s.objects {
		must(t, s.installer.Apply(t.Context(), o))
	}
	if again, againRefit := s.trusted(t); again != webhook || againRefit != refit || webhook == "" || refit == "" {
		t.Error("what was trusted is not trusted any more")
	}
	for _, name := range []string{"phasegpu-webhook", "phasegpu-numarefit-tls"} {
		secret, err := s.Client.CoreV1().Secrets(system).Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		if len(secret.Data["tls.key"]) == 0 {
			t.Errorf("Secret %s is empty", name)
		}
	}
	for name, generation := range generations() {
		if generation != before[name] {
			t.Errorf("%s: its pods are replaced", name)
		}
	}
}

// uninstall deletes as kubectl does, in the order of the objects. Nothing of phasegpu is left: no object, and no policy
// that refuses a pod.
func (s *site) uninstall(t *testing.T) {
	for _, o := range s.objects {
		must(t, s.installer.Delete(t.Context(), o))
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(s.Admin())
	must(t, err)
	lists, err := kinds.ServerPreferredResources()
	must(t, err)
	client, err := metadata.NewForConfig(s.Admin())
	must(t, err)
	must(t, stack.Eventually(t.Context(), "nothing is left", func(ctx context.Context) error {
		var left []error
		for _, list := range lists {
			for _, r := range list.APIResources {
				if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") || r.Kind == "Event" {
					continue
				}
				group, version, _ := strings.Cut(list.GroupVersion, "/")
				if version == "" {
					group, version = "", group
				}
				found, err := client.Resource(resource(group, version, r.Name)).List(ctx, metav1.ListOptions{})
				if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
					return err
				}
				if found == nil {
					continue
				}
				for _, o := range found.Items {
					if strings.Contains(o.Name, "phasegpu") || strings.HasPrefix(o.Namespace, "phasegpu") {
						left = append(left, fmt.Errorf("%s %s/%s", r.Kind, o.Namespace, o.Name))
					}
				}
			}
		}
		return errors.Join(left...)
	}))
	must(t, s.DryRun(t.Context(), stack.NewPod("default", "with-devices", stack.App("app", stack.GPU(1, 1000)))))
	forged := stack.NewPod("default", "with-record", stack.App("app"))
	stack.Annotate(forged, "hami.io/vgpu-devices-allocated", ";")
	must(t, s.DryRun(t.Context(), forged))
}

// warnings are what the API server says beside its answers.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
