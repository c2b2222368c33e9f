package controlplane_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

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

func testScheduler(t *testing.T, cp *controlplane.ControlPlane, admin kubernetes.Interface) {
	if err := cp.StartScheduler(t.Context(), []byte("kind: ConfigMap\n")); err == nil {
		t.Error("a ConfigMap is taken for a scheduler's configuration")
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Allocatable = corev1.ResourceList{
		"pods": resource.MustParse("110"), "cpu": resource.MustParse("8"), "memory": resource.MustParse("8Gi"),
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
	for path, says := range map[string]string{"/metrics": "scheduler_schedule_attempts_total",
		"/debug/pprof/goroutine?debug=1": "goroutine profile"} {
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
