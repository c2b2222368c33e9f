package bind

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// api is an API server that has pods and their bindings, and misbehaves as told.
type api struct {
	*httptest.Server
	mu   sync.Mutex
	pods map[string]*corev1.Pod // by namespace/name
	// bind is what becomes of each POST in turn; the last is for all that follow. Without any, every POST
	// is carried out as an API server does.
	bind     []reaction
	bindings []corev1.Binding // all POSTs
	reads    int
	blind    int // how many reads fail
}

type reaction func(a *api, w http.ResponseWriter, b *corev1.Binding)

func newAPI(t *testing.T, pods ...*corev1.Pod) *api {
	a := &api{pods: map[string]*corev1.Pod{}}
	for _, p := range pods {
		a.pods[p.Namespace+"/"+p.Name] = p
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}", func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.reads++
		if a.reads <= a.blind {
			status(w, 503, "no reads now")
			return
		}
		pod := a.pods[r.PathValue("namespace")+"/"+r.PathValue("name")]
		if pod == nil {
			status(w, 404, "pod not found")
			return
		}
		reply(w, 200, pod)
	})
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/pods/{name}/binding",
		func(w http.ResponseWriter, r *http.Request) {
			var b corev1.Binding
			if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
				t.Errorf("binding: %v", err)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.bindings = append(a.bindings, b)
			do := reaction(carryOut)
			if len(a.bind) > 0 {
				do = a.bind[0]
				if len(a.bind) > 1 {
					a.bind = a.bind[1:]
				}
			}
			do(a, w, &b)
		})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

func (a *api) client(t *testing.T) kubernetes.Interface {
	c, err := kubernetes.NewForConfig(&rest.Config{Host: a.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (a *api) pod(key string) *corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[key].DeepCopy()
}

func (a *api) posts() []corev1.Binding {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]corev1.Binding(nil), a.bindings...)
}

// write binds as the API server's binding endpoint does: pods/registry, assignPod.
func (a *api) write(b *corev1.Binding) (code int, message string) {
	pod := a.pods[b.Namespace+"/"+b.Name]
	switch {
	case pod == nil:
		return 404, "pods " + b.Name + " not found"
	case pod.UID != b.UID:
		return 409, "Precondition failed: UID in precondition: " + string(b.UID) +
			", UID in object meta: " + string(pod.UID)
	case pod.DeletionTimestamp != nil:
		return 409, "pod " + b.Name + " is being deleted, cannot be assigned to a host"
	case pod.Spec.NodeName != "":
		return 409, "pod " + b.Name + " is already assigned to node " + pod.Spec.NodeName
	}
	pod.Spec.NodeName = b.Target.Name
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	for k, v := range b.Annotations {
		pod.Annotations[k] = v
	}
	return 201, ""
}

func carryOut(a *api, w http.ResponseWriter, b *corev1.Binding) {
	code, message := a.write(b)
	status(w, code, message)
}

// answer answers without doing anything.
func answer(code int, message string) reaction {
	return func(_ *api, w http.ResponseWriter, _ *corev1.Binding) { status(w, code, message) }
}

// lost carries out and breaks the connection before the answer.
func lost(a *api, w http.ResponseWriter, b *corev1.Binding) {
	a.write(b)
	broken(a, w, b)
}

// broken breaks the connection.
func broken(_ *api, w http.ResponseWriter, _ *corev1.Binding) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func status(w http.ResponseWriter, code int, message string) {
	s := &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Message: message, Reason: map[int]metav1.StatusReason{
			404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 403: metav1.StatusReasonForbidden,
		}[code],
	}
	if code < 300 {
		s.Status = metav1.StatusSuccess
	}
	reply(w, code, s)
}

func reply(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}
