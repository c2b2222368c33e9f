package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// kube-scheduler reads an answer only up to the end of its JSON. It can then use the connection again if it knows
// that this was all.
func TestConnectionIsKept(t *testing.T) {
	c := calls()
	c.Filter = func(_ context.Context, args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
		return &extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames}
	}
	var connections atomic.Int64
	s := httptest.NewUnstartedServer(Extender(c, NewMetrics(), zap.NewNop()))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("gpu-node-%04d", i)
	}
	body, err := json.Marshal(&extenderv1.ExtenderArgs{NodeNames: &names})
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
