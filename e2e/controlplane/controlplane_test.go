package controlplane_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/phasegpu/phasegpu/e2e/controlplane"
	"github.com/phasegpu/phasegpu/gen/await"
)

const schedulerConfig = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
`

// TestControlPlane looks at one control plane from several sides, one after the other.
func TestControlPlane(t *testing.T) {
	cp := controlplane.StartT(t, controlplane.Options{Audit: true})
	admin := clientFor(t, cp.Admin())

	t.Run("RBAC", func(t *testing.T) {
		nobody := clientFor(t, cp.User("nobody"))
		if _, err := nobody.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a user without rights lists pods: %v, want forbidden", err)
		}
		master := clientFor(t, cp.User("somebody", "system:masters"))
		if _, err := master.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("a user of group system:masters: %v", err)
		}
	})

	t.Run("service account", func(t *testing.T) {
		config, err := cp.ServiceAccount(t.Context(), "default", "default")
		if err != nil {
			t.Fatal(err)
		}
		path, err := cp.Kubeconfig("account", config)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = clientFor(t, loaded).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:serviceaccount:default:default") {
			t.Errorf("error %v, want one that forbids it to the service account", err)
		}
		if _, err := cp.ServiceAccount(t.Context(), "default", "missing"); err == nil {
			t.Error("a token of an account that does not exist")
		}
	})

	t.Run("quota", func(t *testing.T) { testQuota(t, cp, admin) })
	t.Run("webhook", func(t *testing.T) { testWebhook(t, cp, admin) })

	t.Run("API server and etcd restart", func(t *testing.T) {
		create(t, admin, "default", "survivor")
		for _, restart := range []struct {
			name string
			do   func(context.Context) error
		}{
			{"API server restarted", cp.APIServer.Restart},
			{"API server killed", func(ctx context.Context) error {
				return errors.Join(cp.APIServer.Kill(), cp.APIServer.Start(ctx))
			}},
			{"etcd killed", func(ctx context.Context) error { return errors.Join(cp.Etcd.Kill(), cp.Etcd.Start(ctx)) }},
		} {
			if err := restart.do(t.Context()); err != nil {
				t.Fatalf("%s: %v", restart.name, err)
			}
			await.Until(t, restart.name+": the pod is still there", func() bool {
				_, err := admin.CoreV1().Pods("default").Get(t.Context(), "survivor", metav1.GetOptions{})
				return err == nil
			})
		}
	})

	t.Run("audit log", func(t *testing.T) { testAudit(t, cp, admin) }) // it binds a pod itself
	t.Run("scheduler", func(t *testing.T) { testScheduler(t, cp, admin) })
}

func testQuota(t *testing.T, cp *controlplane.ControlPlane, admin kubernetes.Interface) {
	const ns = "quota"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cp.WaitForNamespace(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
	if _, err := admin.CoreV1().ResourceQuotas(ns).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the controller manager counts", func() bool {
		q, err := admin.CoreV1().ResourceQuotas(ns).Get(t.Context(), "q", metav1.GetOptions{})
		return err == nil && len(q.Status.Used) == 1
	})
	create(t, admin, ns, "first")
	_, err := admin.CoreV1().Pods(ns).Create(t.Context(), pod("second"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("error %v, want the quota exceeded", err)
	}
}

func testWebhook(t *testing.T, cp *controlplane.ControlPlane, admin kubernetes.Interface) {
	dir := t.TempDir()
	if err := cp.ServingCertificate(dir); err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var review admissionv1.AdmissionReview
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
			http.Error(w, "no AdmissionReview", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Result: &metav1.Status{Message: "not on a Sunday"},
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	defer server.Close()

	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	webhooks := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = webhooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "sunday"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "sunday.example.test",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: cp.CA()},
			FailurePolicy:           &fail,
			SideEffects:             &none,
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := webhooks.Delete(t.Context(), "sunday", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	// The API server learns of a configuration a moment after it is stored.
	await.Until(t, "the API server asks the webhook", func() bool {
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, dry)
		return err != nil && strings.Contains(err.Error(), "not on a Sunday") && asked.Load() > 0
	})
}

func testScheduler(t *testing.T, cp *controlplane.ControlPlane, admin kubernetes.Interface) {
	if err := cp.StartScheduler(t.Context(), []byte("kind: ConfigMap\n")); err == nil {
		t.Error("a ConfigMap is taken for a scheduler's configuration")
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"),
	}
	node.Status.Capacity = node.Status.Allocatable
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create(t, admin, "default", "waits")
	bound := func(name string) func() bool {
		return func() bool {
			p, err := admin.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && p.Spec.NodeName == "n1"
		}
	}
	if bound("waits")() {
		t.Error("bound without a scheduler")
	}
	if err := cp.StartScheduler(t.Context(), []byte(schedulerConfig)); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "pod waits is bound", bound("waits"))
	for path, says := range map[string]string{"/metrics": "scheduler_schedule_attempts_total", "/debug/pprof/goroutine?debug=1": "goroutine profile"} {
		if page, err := cp.SchedulerPage(t.Context(), path); err != nil || !strings.Contains(string(page), says) {
			t.Errorf("%s: %v, %d bytes without %q", path, err, len(page), says)
		}
	}

	if err := cp.Scheduler.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	create(t, admin, "default", "sleeps")
	if err := cp.Scheduler.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "pod sleeps is bound once the scheduler goes on", bound("sleeps"))

	if err := errors.Join(cp.Scheduler.Kill(), cp.Scheduler.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	create(t, admin, "default", "late")
	await.Until(t, "pod late is bound by the scheduler started again", bound("late"))
}

// TestTwoAtOnce also sees what Stop leaves.
func TestTwoAtOnce(t *testing.T) {
	var planes [2]*controlplane.ControlPlane
	var errs [2]error
	var both sync.WaitGroup
	for i := range planes {
		both.Go(func() { planes[i], errs[i] = controlplane.Start(t.Context(), controlplane.Options{}) })
	}
	both.Wait()
	for i, cp := range planes {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		defer cp.Stop()
	}
	create(t, clientFor(t, planes[0].Admin()), "default", "only-here")
	pods, err := clientFor(t, planes[1].Admin()).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 0 {
		t.Errorf("the other control plane has pods %v, %v; want none", pods, err)
	}

	cp := planes[0]
	pids := []int{cp.Etcd.PID(), cp.APIServer.PID(), cp.ControllerManager.PID()}
	if err := cp.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if pid == 0 || syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is left", pid)
		}
	}
	if _, err := os.Stat(cp.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory %s is left: %v", cp.Dir, err)
	}
	if err := cp.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
	if !planes[1].APIServer.Running() {
		t.Error("stopping one stopped the other")
	}
}

func TestStartFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	_, err := controlplane.Start(t.Context(), controlplane.Options{Dir: dir, APIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("error %v, want what kube-apiserver said", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "logs", "kube-apiserver.log")); err != nil {
		t.Errorf("the log in a directory of our own is gone: %v", err)
	}
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.test/app"}}},
	}
}

func create(t *testing.T, c kubernetes.Interface, namespace, name string) {
	t.Helper()
	if _, err := c.CoreV1().Pods(namespace).Create(t.Context(), pod(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
