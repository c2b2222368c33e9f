package main

import (
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/phasegpu/phasegpu/webhook/internal/selfsigned"
)

// For half a year there is a certificate that is good, and the log tells no more than what was changed. Then the API
// server fails, which ends it.
func TestKeepRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meta := metav1.ObjectMeta{Namespace: "n", Name: "x"}
		client := fake.NewClientset(&corev1.Secret{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: meta})
		var away atomic.Bool
		client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, errors.New("API server is away")
		})
		name := selfsigned.Name{Namespace: "n", Name: "x"}
		core, logs := observer.New(zap.DebugLevel)
		ended := make(chan error, 1)
		go func() {
			ended <- keepRenewed(t.Context(), &selfsigned.Service{Client: client, Host: "h", Secret: name, ConfigMap: name}, 12*time.Hour, zap.New(core))
		}()
		for day := range 180 {
			synctest.Wait()
			secret, err := client.CoreV1().Secrets("n").Get(t.Context(), "x", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
			if err != nil {
				t.Fatalf("day %d: %v", day, err)
			}
			if left := time.Until(pair.Leaf.NotAfter); left < 29*24*time.Hour {
				t.Fatalf("day %d: it is good for %v more", day, left)
			}
			time.Sleep(24 * time.Hour) // of the bubble's clock
		}
		synctest.Wait()
		if logs.Len() != 7 { // the first; and two of which each was announced, then shown, and the one before taken out at its end
			t.Errorf("the log has %d lines: %v", logs.Len(), logs.All())
		}
		away.Store(true)
		if err := <-ended; err == nil {
			t.Error("it ended without an error")
		}
	})
}

// It looks once when it is not asked for more, and ends when it is told to, as on a node that is drained.
func TestKeepRenewedEnds(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "n", Name: "x"}
	name := selfsigned.Name{Namespace: "n", Name: "x"}
	s := &selfsigned.Service{Client: fake.NewClientset(&corev1.Secret{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: meta}), Host: "h", Secret: name, ConfigMap: name}
	if err := keepRenewed(t.Context(), s, 0, zap.NewNop()); err != nil {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := keepRenewed(ctx, s, time.Hour, zap.NewNop()); err != nil {
		t.Error(err)
	}
}
