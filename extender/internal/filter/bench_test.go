package filter_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/ask"
	"github.com/phasegpu/phasegpu/extender/internal/filter"
	"github.com/phasegpu/phasegpu/extender/internal/server"
	"github.com/phasegpu/phasegpu/extender/internal/wake"
	"github.com/phasegpu/phasegpu/gen/kube"
)

const (
	benchNodes, benchDevices, benchPods = 5000, 8, 40000
	benchMemoryMiB                      = 24576
)

// cluster is 5,000 nodes of 8 devices with 40,000 pods of an init container, a sidecar and an app, all
// in steady state.
type cluster struct {
	nodes []ledger.Node
	pods  []*corev1.Pod
}

func newCluster() cluster {
	var c cluster
	for n := range benchNodes {
		node := ledger.Node{Name: fmt.Sprintf("node-%04d.gpu.example.internal", n)}
		for d := range benchDevices {
			node.Devices = append(node.Devices, device.Device{
				UUID: fmt.Sprintf("GPU-%08d-0000-0000-0000-%012d", n, d), Index: d, Family: "NVIDIA", Model: "NVIDIA A10", NUMA: d / 4,
				Capacity: device.Amount{Slots: 10, MemoryMiB: benchMemoryMiB, Cores: 100}, Healthy: true,
			})
		}
		c.nodes = append(c.nodes, node)
	}
	start := metav1.NewTime(time.Unix(1700000000, 0))
	for i := range benchPods {
		node := &c.nodes[i%benchNodes]
		pod := threePhases(fmt.Sprint("pod-", i), 8000, 2000, 6000)
		uuid := node.Devices[i/benchNodes].UUID
		pod.Spec.NodeName = node.Name
		pod.Annotations = map[string]string{"hami.io/vgpu-devices-allocated": fmt.Sprintf("%s,NVIDIA,8000,0:;%s,NVIDIA,2000,0:;%s,NVIDIA,6000,0:;", uuid, uuid, uuid)}
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}}},
		}}
		c.pods = append(c.pods, pod)
	}
	return c
}

// threePhases is a pod of an init container, a sidecar and an app with the given memory in MiB.
func threePhases(name string, init, sidecar, app int64) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	asks := func(name string, mib int64) corev1.Container {
		return corev1.Container{Name: name, Image: "registry.example/" + name + ":1", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": *resource.NewQuantity(mib, resource.DecimalSI), "cpu": resource.MustParse("1")},
		}}
	}
	s := asks("sidecar", sidecar)
	s.RestartPolicy = &always
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{InitContainers: []corev1.Container{asks("init", init), s}, Containers: []corev1.Container{asks("app", app)}},
	}
}

func (c cluster) body(b *testing.B, pod *corev1.Pod) []byte {
	var names []string
	for i := range c.nodes {
		names = append(names, c.nodes[i].Name)
	}
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod, NodeNames: &names})
	if err != nil {
		b.Fatal(err)
	}
	return body
}

func (c cluster) extender() http.Handler {
	book := ledger.New()
	for _, n := range c.nodes {
		book.SetNode(n)
	}
	for _, p := range c.pods {
		book.Observe(kube.LedgerPod(p, phase.PerInit))
	}
	f := &filter.Filter{
		Book: book, Gate: func() map[string]string { return nil }, Recent: ask.NewRecent(16), Count: func(string, int) {},
		Refused: wake.New(book, func(string) int { return 8 }, func(*ask.Pod) {}, time.Now),
	}
	return server.Extender(server.Calls{Ready: func() error { return nil }, Filter: f.Filter, Prioritize: f.Prioritize}, server.NewMetrics(), zap.NewNop())
}

func serve(b *testing.B, h http.Handler, path string, body []byte) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	if w.Code != http.StatusOK {
		b.Fatalf("%d %s", w.Code, w.Body)
	}
	return w
}

// BenchmarkFilter is one Filter call, HTTP handler in to out, over all nodes: for a pod that fits on every
// one and for one that fits on none; and the same work done by adding up all pods' containers each time.
// Budget (docs/design.md, section 9): 10 ms.
func BenchmarkFilter(b *testing.B) {
	c := newCluster()
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		fits int
	}{
		{"fits", threePhases("new", 12000, 2000, 8000), benchNodes},
		{"refused", threePhases("new", 20000, 2000, 8000), 0},
	} {
		body := c.body(b, test.pod)
		h := c.extender()
		var result extenderv1.ExtenderFilterResult
		if err := json.Unmarshal(serve(b, h, "/filter", body).Body.Bytes(), &result); err != nil || len(*result.NodeNames) != test.fits {
			b.Fatalf("%v, %d nodes", err, len(*result.NodeNames))
		}
		var took float64
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				serve(b, h, "/filter", body)
			}
			took = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			b.ReportMetric(took/1e6, "ms/op")
		})
		b.Run(test.name+"-baseline", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				serve(b, c.rebuild(), "/filter", body)
			}
			baseline := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			b.ReportMetric(baseline/1e6, "ms/op")
			b.ReportMetric(baseline/took, "x-slower")
		})
	}
}

// BenchmarkPrioritize is one Prioritize call over all nodes, the same way.
func BenchmarkPrioritize(b *testing.B) {
	c := newCluster()
	h := c.extender()
	body := c.body(b, threePhases("new", 12000, 2000, 8000))
	b.ReportAllocs()
	for b.Loop() {
		serve(b, h, "/prioritize", body)
	}
}

// rebuild is the baseline: each Filter adds up what the containers of every pod hold, from their
// annotations, and looks for a device with room for the sum of the new pod's containers.
func (c cluster) rebuild() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		used := map[string]int64{}
		for _, p := range c.pods {
			for _, container := range strings.Split(p.Annotations["hami.io/vgpu-devices-allocated"], ";") {
				for _, share := range strings.Split(container, ":") {
					if fields := strings.Split(share, ","); len(fields) == 4 {
						mib, _ := strconv.ParseInt(fields[2], 10, 64)
						used[fields[0]] += mib
					}
				}
			}
		}
		var sum int64
		for _, containers := range [][]corev1.Container{args.Pod.Spec.InitContainers, args.Pod.Spec.Containers} {
			for _, container := range containers {
				q := container.Resources.Limits["nvidia.com/gpumem"]
				sum += q.Value()
			}
		}
		nodes := map[string]*ledger.Node{}
		for i := range c.nodes {
			nodes[c.nodes[i].Name] = &c.nodes[i]
		}
		fit := []string{}
		failed := extenderv1.FailedNodesMap{}
		for _, name := range *args.NodeNames {
			failed[name] = "no device with room"
			for _, d := range nodes[name].Devices {
				if used[d.UUID]+sum <= d.Capacity.MemoryMiB {
					delete(failed, name)
					fit = append(fit, name)
					break
				}
			}
		}
		_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: &fit, FailedNodes: failed})
	})
}
