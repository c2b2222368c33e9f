package trust

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/phasegpu/phasegpu/numarefit/internal/fakeapi"
)

const namespace, name = "phasegpu-node", "phasegpu-numarefit-ca"

// A CA that comes late, is replaced, or is overwritten ends up in the ConfigMap; what is no CA does not. Each reason is
// logged once, and that another replica was faster is not logged.
func TestKeep(t *testing.T) {
	first, second := certificate(t), certificate(t)+"\n"
	file := filepath.Join(t.TempDir(), Key)
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"other": "stays"},
		})
		away := false
		client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return away, nil, errors.New("the API server is away")
		})
		faster := true // another replica, once
		client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			defer func() { faster = false }()
			return faster, nil, apierrors.NewConflict(corev1.Resource("configmaps"), name, errors.New("it has changed"))
		})
		core, logs := observer.New(zap.InfoLevel)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			(&CA{File: file, Namespace: namespace, Name: name, ConfigMaps: client.CoreV1(),
				Log: zap.New(core)}).Keep(ctx)
			close(ended)
		}()
		later := func() {
			time.Sleep(3 * interval)
			synctest.Wait()
		}
		has := func(when, want string, lines ...string) {
			t.Helper()
			m, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			data := map[string]string{"other": "stays"}
			if want != "" {
				data[Key] = want
			}
			if diff := cmp.Diff(data, m.Data); diff != "" {
				t.Errorf("%s: ConfigMap (-want +got):\n%s", when, diff)
			}
			var got []string
			for _, e := range logs.TakeAll() {
				got = append(got, e.Level.String()+": "+e.Message)
			}
			if diff := cmp.Diff(lines, got); diff != "" {
				t.Errorf("%s: log (-want +got):\n%s", when, diff)
			}
		}
		const published, warned = "info: published the CA", "warn: callers may not trust the serving certificate"

		later()
		has("without a file", "", warned)
		write(t, file, "no certificate")
		later()
		has("no certificate", "", warned)
		write(t, file, first)
		later()
		has("the first", first, published)
		write(t, file, second)
		later()
		has("the second", second, published)
		write(t, file, "-----BEGIN CERT")
		later()
		has("half of one", second, warned)
		write(t, file, second)

		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Data: map[string]string{"other": "stays", Key: first}}
		if _, err := client.CoreV1().ConfigMaps(namespace).Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		later()
		has("written over", second, published)
		client.ClearActions()
		later()
		if n := len(client.Actions()); n != 3 {
			t.Errorf("%d calls in 3 intervals without a change, want 3, all to read", n)
		}

		away = true
		write(t, file, first)
		later()
		away = false
		has("while the API server is away", second, warned)
		later()
		has("when it is back", first, published)
		stop()
		<-ended
	})
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// certificate returns a CA's, PEM.
func certificate(t *testing.T) string {
	t.Helper()
	text, _ := fakeapi.Certificate(t, t.TempDir())
	return string(text)
}
