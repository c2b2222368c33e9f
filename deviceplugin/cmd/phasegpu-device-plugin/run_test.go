package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/fakekubelet"
	"github.com/phasegpu/phasegpu/gen/await"
)

// running is a running plugin.
type running struct {
	*fake.Clientset
	dir  string
	file string // the inventory
	url  string
	end  context.CancelFunc
	wait func() // until it has ended
}

// start runs the plugin with the flags, beside a node n1.
func start(t *testing.T, flags ...string) *running {
	t.Helper()
	dir, err := os.MkdirTemp("", "plugin") // a socket's path is short
	must(t, err)
	p := &running{dir: dir, file: filepath.Join(t.TempDir(), "node.json")}
	p.declare(t, `{"cards":[{"uuid":"GPU-0","memoryMiB":24576,"numa":0},{"uuid":"GPU-1","memoryMiB":24576,"numa":1}]}`)
	p.Clientset = fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	p.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if selector := a.(clienttesting.ListAction).GetListRestrictions().Fields.String(); selector != "spec.nodeName=n1" {
			t.Errorf("pods were listed by %q", selector)
		}
		return false, nil, nil
	})
	o, err := parse(append([]string{"--node=n1", "--kubelet-dir=" + dir, "--inventory-file=" + p.file,
		"--drift-every=10ms"}, flags...), io.Discard)
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p.url = "http://" + listener.Addr().String()
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, o, p.Clientset, listener, zap.NewNop()) }()
	p.end = end
	p.wait = sync.OnceFunc(func() {
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(func() {
		end()
		p.wait()
		_ = os.RemoveAll(dir)
	})
	return p
}

// declare writes the inventory file.
func (p *running) declare(t *testing.T, text string) {
	t.Helper()
	must(t, os.WriteFile(p.file+".new", []byte(text), 0o644))
	must(t, os.Rename(p.file+".new", p.file))
}

// get returns the answer to a request, "" for none.
func (p *running) get(path string) string {
	response, err := http.Get(p.url + path)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return fmt.Sprint(response.StatusCode, " ", string(body))
}

func (p *running) annotation() string {
	node, err := p.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return node.Annotations["hami.io/node-nvidia-register"]
}

// From the inventory file to the container's environment, and what the plugin tells of itself.
func TestServe(t *testing.T) {
	p := start(t, "--isolation=none", "--replicas=2", "--memory-scaling=2")
	await.Until(t, "the annotation", func() bool { return strings.Contains(p.annotation(), `"devmem":49152`) })
	if strings.Contains(p.annotation(), `"health":true`) {
		t.Error("devices are offered that no kubelet would allocate")
	}
	await.Until(t, "an answer", func() bool {
		return strings.Contains(p.get("/readyz"),
			"503 not ready: not registered with kubelet")
	})
	k, err := fakekubelet.New(p.dir, "nvidia.com/gpu")
	must(t, err)
	defer k.Stop()
	await.Until(t, "the list", func() bool { return len(k.Devices()) == 4 })
	await.Until(t, "readiness", func() bool { return strings.HasPrefix(p.get("/readyz"), "200") })

	pod := placed()
	if err := k.Admit(t.Context(), pod, nil); err == nil || !strings.Contains(err.Error(), "no pod with a record") {
		t.Errorf("error %v, want one that says that no pod is pending", err)
	}
	if _, err := p.CoreV1().Pods("team").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	must(t, k.Admit(t.Context(), pod, nil))
	if err := k.StartContainer(t.Context(), "u", "app"); err != nil {
		t.Error(err)
	}
	if got := k.Held("u", "app").Answer.Envs["NVIDIA_VISIBLE_DEVICES"]; got != "GPU-1" {
		t.Errorf("the container sees %q, want GPU-1", got)
	}
	must(t, p.CoreV1().Pods("team").Delete(t.Context(), "p", metav1.DeleteOptions{}))
	await.Until(t, "drift", func() bool {
		return strings.Contains(p.get("/metrics"),
			`drift_containers{kind="gone"} 1`)
	})

	p.declare(t,
		`{"cards":[{"uuid":"GPU-0","memoryMiB":24576,"healthy":false},{"uuid":"GPU-1","memoryMiB":24576,"mig":true}]}`)
	await.Until(t, "the changed list", func() bool {
		return slices.Equal(k.Devices(),
			[]string{"GPU-0::0 Unhealthy", "GPU-0::1 Unhealthy"})
	})
	await.Until(t, "the changed annotation", func() bool { return strings.Contains(p.annotation(), `"mig"`) })
	p.declare(t, `{`)
	await.Until(t, "the problem", func() bool {
		return !strings.Contains(p.get("/metrics"), `phasegpu_device_plugin_problems_total{about="inventory_file"} 0`)
	})
	metrics := p.get("/metrics")
	for _, want := range []string{
		`phasegpu_device_plugin_devices{state="healthy"} 0`, `phasegpu_device_plugin_devices{state="mig"} 1`,
		`phasegpu_device_plugin_devices{state="unhealthy"} 1`,
		`phasegpu_device_plugin_call_duration_seconds_count{call="Allocate",result="ok"} 1`,
		`phasegpu_device_plugin_registrations_total{result="ok"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics do not say %s", want)
		}
	}
}

// placed is a pod that has got GPU-1.
func placed() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", UID: "u",
			Annotations: map[string]string{"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1000,0:;"}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{
			Name:      "app",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
		}}},
	}
}

// Kubelet rejects pods while no plugin serves it, and reports that late. So devices are offered only while kubelet
// follows the plugin's list, and a plugin that ends first allocates for the pod that is on its way.
func TestOffersWhatKubeletAllocates(t *testing.T) {
	p := start(t, "--isolation=none")
	offered := func() bool { return strings.Contains(p.annotation(), `"health":true`) }
	k, err := fakekubelet.New(p.dir, "nvidia.com/gpu")
	must(t, err)
	await.Until(t, "devices are offered", offered)
	k.Stop()
	await.Until(t, "devices are withdrawn with kubelet", func() bool { return !offered() })
	if k, err = fakekubelet.New(p.dir, "nvidia.com/gpu"); err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	await.Until(t, "devices are offered again, and kubelet has them", func() bool {
		return offered() &&
			len(k.Devices()) > 0
	})

	pod, err := p.CoreV1().Pods("team").Create(t.Context(), placed(), metav1.CreateOptions{})
	must(t, err)
	p.end()
	await.Until(t, "devices are withdrawn with the plugin", func() bool { return !offered() })
	if err := k.Admit(t.Context(), pod, nil); err != nil {
		t.Errorf("the pod that was on its way was rejected: %v", err)
	}
	now := metav1.Now()
	pod.Status.StartTime = &now
	if _, err := p.CoreV1().Pods("team").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.wait()
	if offered() {
		t.Error("devices are offered without a plugin")
	}
}

// When a node is paused, the time of a request passes with it. So it is made again, once.
func TestReadsTwice(t *testing.T) {
	client := fake.NewClientset(placed())
	lists := 0
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		lists++
		return lists%3 != 2, nil, context.DeadlineExceeded
	})
	p := &plugin{o: &options{node: "n1"}, client: client}
	if pods, err := p.pods(t.Context(), ""); err != nil || len(pods) != 1 {
		t.Errorf("%d pods and error %v, want the pod", len(pods), err)
	}
	if _, err := p.pods(t.Context(), ""); err == nil || lists != 4 {
		t.Errorf("error %v after %d requests, want one after 4", err, lists)
	}
}

func TestRefusesToServeUnprotected(t *testing.T) {
	o, err := parse([]string{"--node=n1", "--hami-core-dir=" + t.TempDir()}, io.Discard)
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	if err := serve(t.Context(), o, fake.NewClientset(), listener, zap.NewNop()); err == nil ||
		!strings.Contains(err.Error(), "libvgpu.so") {
		t.Errorf("error %v, want one about the missing library", err)
	}
}

func TestParse(t *testing.T) {
	t.Setenv("NODE_NAME", "from-environment")
	o, err := parse([]string{"--isolation=mps", "--ignored-xids=13, 31,"}, io.Discard)
	must(t, err)
	if o.node != "from-environment" || o.shape.Mode.String() != "mps" ||
		!slices.Equal(o.ignoredXIDs, []uint64{13, 31}) || o.shape.Replicas != 10 {
		t.Errorf("options %+v", o)
	}
	for _, bad := range []string{
		"--isolation=strict", "--replicas=0", "--memory-scaling=NaN", "--memory-scaling=0", "--memory-scaling=11",
		"--ignored-xids=x",
		"--refit-url=https://numarefit", "--refit-url=http://numarefit --refit-ca=a --refit-token=t", "--refit-token=t",
		"--node=", "--probe-every=0s", "--recover-after=-1s", "extra",
	} {
		if _, err := parse(strings.Fields(bad), io.Discard); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
