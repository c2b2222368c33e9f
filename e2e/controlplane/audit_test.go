package controlplane_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/phasegpu/phasegpu/e2e/controlplane"
	"github.com/phasegpu/phasegpu/gen/await"
)

// testAudit finds in the log who asked what, in order, and nothing twice.
func testAudit(t *testing.T, cp *controlplane.ControlPlane, admin kubernetes.Interface) {
	ctx := t.Context()
	log := cp.AuditLog()
	if _, err := log.Next(); err != nil {
		t.Fatal(err)
	}
	config := cp.User("auditor", "system:masters")
	config.UserAgent = "phasegpu-something/v1 (linux)"
	auditor := clientFor(t, config)
	began := time.Now().Add(-time.Millisecond)
	create(t, auditor, "default", "audited")
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "audited"},
		Target: corev1.ObjectReference{Kind: "Node", Name: "nowhere"}}
	if err := auditor.CoreV1().Pods("default").Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := auditor.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Pods("default").Get(ctx, "no-such-pod",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	var got []controlplane.Request
	await.Until(t, "all four requests are in the log", func() bool {
		requests, err := log.Next()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			if r.User == "auditor" || r.Name == "no-such-pod" {
				if r.Answered.Before(began) || r.Answered.After(time.Now()) {
					t.Errorf("answered at %v", r.Answered)
				}
				got = append(got, r)
			}
		}
		return len(got) >= 4
	})
	want := []controlplane.Request{
		{User: "auditor", Agent: "phasegpu-something", Verb: "create", Resource: "pods", Namespace: "default",
			Name: "audited", Code: 201},
		{User: "auditor", Agent: "phasegpu-something", Verb: "create", Resource: "pods/binding", Namespace: "default",
			Name: "audited", Code: 201},
		{User: "auditor", Agent: "phasegpu-something", Verb: "list", Resource: "pods", Namespace: "default", Code: 200},
		{User: "admin", Agent: "controlplane.test", Verb: "get", Resource: "pods", Namespace: "default",
			Name: "no-such-pod", Code: 404},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(controlplane.Request{}, "Answered")); diff != "" {
		t.Error(diff)
	}
	for i, writes := range []bool{true, true, false, false} {
		if got[i].Writes() != writes {
			t.Errorf("%+v writes: %v", got[i], got[i].Writes())
		}
	}
	// What is read is read once.
	again, err := log.Next()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range again {
		if r.User == "auditor" {
			t.Errorf("read again: %+v", r)
		}
	}
}
