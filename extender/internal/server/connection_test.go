package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// kube-scheduler reads an answer only up to the end of its JSON. It can then use the connection again if it knows
// that this was all.
func TestConnectionIsKept(t *testing.T) {
	h, _ := handler(fake{})
	var connections atomic.Int64
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("yes-%04d", i)
	}
	body, err := json.Marshal(&extenderv1.ExtenderArgs{Pod: &corev1.Pod{}, NodeNames: &names})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		answer, err := s.Client().Post(s.URL+"/filter", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var result extenderv1.ExtenderFilterResult
		if err := json.NewDecoder(answer.Body).Decode(&result); err != nil || len(*result.NodeNames) != len(names) {
			t.Fatalf("%v: %+v", err, result)
		}
		_ = answer.Body.Close()
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("20 calls took %d connections, want 1", n)
	}
}
