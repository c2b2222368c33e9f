package kube_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apiServer serves lists and watches of pods, nodes and quotas the way an API server does: one
// resourceVersion for all, streams that begin after a version or with all that is there, and 410 once
// it has forgotten its history.
type apiServer struct {
	mu      sync.Mutex
	changed *sync.Cond
	version int
	forgot  int // streams that began before this version end
	closed  bool
	objects map[string]map[string]metav1.Object // by resource and key
	history []event
	pods    string          // the field selector of the last request for pods
	pages   []int           // what each page of a list had
	pinned  []metav1.Object // what is left of a list in pages
	deaf    bool            // streams tell of no change
	server  *httptest.Server
}

type event struct {
	version  int
	resource string
	Type     string        `json:"type"`
	Object   metav1.Object `json:"object"`
}

func newAPIServer(t *testing.T) (*apiServer, kubernetes.Interface) {
	s := &apiServer{version: 100, objects: map[string]map[string]metav1.Object{"pods": {}, "nodes": {}, "resourcequotas": {}}}
	s.changed = sync.NewCond(&s.mu)
	s.server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.mu.Lock()
		s.closed = true
		s.changed.Broadcast()
		s.mu.Unlock()
		s.server.Close()
	})
	return s, kubernetes.NewForConfigOrDie(&rest.Config{Host: s.server.URL, QPS: -1})
}

// put creates or updates an object, which gets the next resourceVersion.
func (s *apiServer) put(o metav1.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := resourceOf(o)
	kind := "ADDED"
	if _, ok := s.objects[resource][keyOf(o)]; ok {
		kind = "MODIFIED"
	}
	s.version++
	typed := metav1.TypeMeta{Kind: kindOf(resource), APIVersion: "v1"}
	switch o := o.(type) { // copies: what a watch has delivered must not change
	case *corev1.Pod:
		o = o.DeepCopy()
		o.TypeMeta = typed
		s.record(kind, resource, o)
	case *corev1.Node:
		o = o.DeepCopy()
		o.TypeMeta = typed
		s.record(kind, resource, o)
	case *corev1.ResourceQuota:
		o = o.DeepCopy()
		o.TypeMeta = typed
		s.record(kind, resource, o)
	}
}

// remove deletes an object.
func (s *apiServer) remove(o metav1.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.record("DELETED", resourceOf(o), s.objects[resourceOf(o)][keyOf(o)])
	delete(s.objects[resourceOf(o)], keyOf(o))
}

func (s *apiServer) record(kind, resource string, o metav1.Object) {
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[resource][keyOf(o)] = o
	s.history = append(s.history, event{s.version, resource, kind, o})
	s.changed.Broadcast()
}

// deafen has streams tell of no change, or again of all.
func (s *apiServer) deafen(deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = deaf
	s.changed.Broadcast()
}

// disconnect makes the changes while no watch is connected that could tell of them: every stream ends
// with 410, so the client must list again.
func (s *apiServer) disconnect(changes func()) {
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	changes()
	s.mu.Lock()
	s.version++
	s.closed, s.forgot, s.history = false, s.version, nil
	s.mu.Unlock()
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	query := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	if rest, pod, one := strings.Cut(r.URL.Path, "/pods/"); one && !s.closed {
		w.Header().Set("Content-Type", "application/json")
		key := rest[strings.LastIndex(rest, "/")+1:] + "/" + pod
		if o := s.objects["pods"][key]; o != nil {
			write(w, o)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		write(w, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404})
		return
	}
	if _, ok := s.objects[resource]; !ok || s.closed {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	if resource == "pods" {
		s.pods = query.Get("fieldSelector")
	}
	w.Header().Set("Content-Type", "application/json")
	if query.Get("watch") != "true" && query.Get("watch") != "1" {
		s.list(w, resource, query.Get("limit"), query.Get("continue"))
		return
	}
	from, _ := strconv.Atoi(query.Get("resourceVersion"))
	if query.Get("sendInitialEvents") == "true" {
		from = s.version
		for _, o := range s.objects[resource] {
			write(w, event{Type: "ADDED", Object: o})
		}
		write(w, map[string]any{"type": "BOOKMARK", "object": map[string]any{
			"kind": kindOf(resource), "apiVersion": "v1", "metadata": map[string]any{
				"resourceVersion": strconv.Itoa(from), "annotations": map[string]string{"k8s.io/initial-events-end": "true"},
			},
		}})
	}
	stop := context.AfterFunc(r.Context(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	for r.Context().Err() == nil && !s.closed {
		if from < s.forgot {
			write(w, map[string]any{"type": "ERROR", "object": map[string]any{
				"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
			}})
			return
		}
		for _, e := range s.history {
			if s.deaf {
				break
			}
			if e.resource == resource && e.version > from {
				write(w, e)
				from = e.version
			}
		}
		w.(http.Flusher).Flush()
		s.changed.Wait()
	}
}

// list answers a list, or a page of it. A later page is of the moment of the first, whose version is the token.
func (s *apiServer) list(w http.ResponseWriter, resource, limit, token string) {
	at := token
	if token == "" {
		at, s.pinned = strconv.Itoa(s.version), nil
		for _, o := range s.objects[resource] {
			s.pinned = append(s.pinned, o)
		}
	} else if s.pinned == nil {
		w.WriteHeader(http.StatusGone)
		write(w, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410})
		return
	}
	items := s.pinned
	if n, err := strconv.Atoi(limit); err == nil && n < len(items) {
		items = items[:n]
	}
	s.pinned = s.pinned[len(items):]
	meta := map[string]string{"resourceVersion": at}
	if len(s.pinned) > 0 {
		meta["continue"] = at
	}
	if limit != "" {
		s.pages = append(s.pages, len(items))
	}
	write(w, map[string]any{"kind": kindOf(resource) + "List", "apiVersion": "v1", "items": items, "metadata": meta})
}

// expire forgets the rest of a list.
func (s *apiServer) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = nil
}

func write(w http.ResponseWriter, v any) {
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}

func resourceOf(o metav1.Object) string {
	switch o.(type) {
	case *corev1.Pod:
		return "pods"
	case *corev1.Node:
		return "nodes"
	default:
		return "resourcequotas"
	}
}

func kindOf(resource string) string {
	return map[string]string{"pods": "Pod", "nodes": "Node", "resourcequotas": "ResourceQuota"}[resource]
}

func keyOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }
