package signals

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodeName is a node with three cards, two of which take nothing new.
const nodeName = "n1"

// cluster is the objects of a cluster in which everything is the matter that a gauge tells of.
type cluster struct {
	pods   corev1.PodList
	nodes  corev1.NodeList
	quotas corev1.ResourceQuotaList
}

func newCluster() *cluster {
	c := &cluster{}
	node := func(name, inventory string) {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1",
			Annotations: map[string]string{"hami.io/node-nvidia-register": inventory}}}
		n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("20")}
		c.nodes.Items = append(c.nodes.Items, n)
	}
	node(nodeName, `[{"id":"GPU-0","count":10,"devmem":24576,"devcore":100,"type":"A","mode":"hami-core","health":true},`+
		`{"id":"GPU-1","index":1,"count":10,"devmem":24576,"devcore":100,"type":"A","mode":"hami-core"},`+
		`{"id":"GPU-2","index":2,"count":10,"devmem":24576,"devcore":100,"type":"A","mode":"mig","health":true}]`)
	c.nodes.Items[0].Annotations["hami.io/device-cordon"] = "GPU-1"
	node("unreadable", "garbage")
	pod := func(name, uuid string, init, app int) {
		asks := func(name string, mib int) corev1.Container {
			return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
				"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": *resource.NewQuantity(int64(mib),
					resource.DecimalSI),
			}}}
		}
		c.pods.Items = append(c.pods.Items, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), ResourceVersion: "1",
				Annotations: map[string]string{
					"hami.io/vgpu-devices-allocated": fmt.Sprintf("%s,NVIDIA,%d,0:;%s,NVIDIA,%d,0:;", uuid, init, uuid,
						app),
				}},
			Spec: corev1.PodSpec{NodeName: nodeName, InitContainers: []corev1.Container{asks("init", init)},
				Containers: []corev1.Container{asks("app", app)}},
		})
	}
	pod("in-the-gate", "GPU-0", 20000, 5000)
	pod("too-much", "GPU-0", 20000, 5000)
	pod("lost", "GPU-9", 1, 1)
	c.quotas.Items = append(c.quotas.Items, corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "q", ResourceVersion: "1"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			"limits.nvidia.com/gpumem": resource.MustParse("100000"),
		}},
	})
	return c
}

// ServeHTTP is as much of an API server as the binaries need to come up: lists, watches that show nothing, and
// writes that change nothing.
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lists := map[string]any{"/api/v1/pods": &c.pods, "/api/v1/nodes": &c.nodes, "/api/v1/resourcequotas": &c.quotas}
	list, listed := lists[r.URL.Path]
	w.Header().Set("Content-Type", "application/json")
	switch query := r.URL.Query(); {
	case listed && query.Get("sendInitialEvents") != "":
		// an older API server; then lists are asked for
		status(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case listed && query.Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case listed:
		kind := map[string]string{"/api/v1/pods": "PodList", "/api/v1/nodes": "NodeList",
			"/api/v1/resourcequotas": "ResourceQuotaList"}[r.URL.Path]
		answer(w, list, kind)
	case r.URL.Path == "/api/v1/nodes/"+nodeName:
		answer(w, &c.nodes.Items[0], "Node")
	case r.URL.Path == "/version":
		_, _ = io.WriteString(w, "{}")
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events"):
		_, _ = io.Copy(w, r.Body)
	default:
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

func answer(w http.ResponseWriter, object any, kind string) {
	text, err := json.Marshal(object)
	fields := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fields["kind"], fields["apiVersion"] = kind, "v1"
	if meta, _ := fields["metadata"].(map[string]any); strings.HasSuffix(kind, "List") {
		meta["resourceVersion"] = "10"
	}
	_ = json.NewEncoder(w).Encode(fields)
}

func status(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status",
			APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
	})
}

// serve serves the cluster and returns a kubeconfig file in dir that says where.
func (c *cluster) serve(dir string) (kubeconfig string, end func(), err error) {
	server := httptest.NewServer(c)
	kubeconfig = filepath.Join(dir, "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"` + server.URL +
		`"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`
	end = func() {
		server.CloseClientConnections()
		server.Close()
	}
	return kubeconfig, end, os.WriteFile(kubeconfig, []byte(text), 0o600)
}
