package selfsigned

import (
	"errors"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func objects() []runtime.Object {
	meta := metav1.ObjectMeta{Namespace: "n", Name: "x"}
	return []runtime.Object{
		&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"other": []byte("kept")}},
		&corev1.ConfigMap{ObjectMeta: meta},
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "x"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a"}, {Name: "b"}},
		},
	}
}

func TestRenew(t *testing.T) {
	for _, trust := range []string{"webhook", "configmap"} {
		t.Run(trust, func(t *testing.T) {
			client := fake.NewClientset(objects()...)
			s := &Service{Client: client, Host: host, Secret: Name{"n", "x"}}
			if trust == "webhook" {
				s.Webhook = "x"
			} else {
				s.ConfigMap = Name{"n", "x"}
			}
			bundle := func() []byte {
				m, err := client.CoreV1().ConfigMaps("n").Get(t.Context(), "x", metav1.GetOptions{})
				c, err2 := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "x", metav1.GetOptions{})
				if err := errors.Join(err, err2); err != nil {
					t.Fatal(err)
				}
				if trust == "webhook" {
					return common(c.Webhooks)
				}
				return []byte(m.Data["ca.crt"])
			}
			shown := func() Pair {
				secret, err := client.CoreV1().Secrets("n").Get(t.Context(), "x", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if string(secret.Data["other"]) != "kept" {
					t.Errorf("the Secret has %v", secret.Data)
				}
				return Pair{secret.Data["tls.crt"], secret.Data["tls.key"]}
			}
			for _, step := range []struct {
				what    string
				after   time.Duration
				changed bool
			}{
				{"first", 0, true},
				{"nothing to do", 30 * day, false},
				{"announced", 61 * day, true},
				{"nothing to do yet", 61*day + time.Minute, false},
				{"shown", 62 * day, true},
			} {
				changed, err := s.Renew(t.Context(), epoch.Add(step.after))
				if err != nil || changed != step.changed {
					t.Fatalf("%s: changed %t, error %v", step.what, changed, err)
				}
				if !trusts(bundle(), shown(), epoch.Add(step.after)) {
					t.Errorf("%s: what is shown is not trusted", step.what)
				}
			}
		})
	}
}

// A run that could write only one of the two is repeated, and mends it.
func TestRenewHalfWay(t *testing.T) {
	client := fake.NewClientset(objects()...)
	failing := true
	client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failing, nil, errors.New("API server is away")
	})
	s := &Service{Client: client, Host: host, Secret: Name{"n", "x"}, ConfigMap: Name{"n", "x"}}
	if _, err := s.Renew(t.Context(), epoch); err == nil || !strings.Contains(err.Error(), "ConfigMap n/x") {
		t.Errorf("error %v, want one that names the ConfigMap", err)
	}
	failing = false
	if changed, err := s.Renew(t.Context(), epoch); err != nil || !changed {
		t.Errorf("changed %t, error %v", changed, err)
	}
	if changed, err := s.Renew(t.Context(), epoch); err != nil || changed {
		t.Errorf("the third run: changed %t, error %v", changed, err)
	}
}

func TestRenewSaysWhatIsMissing(t *testing.T) {
	for name, s := range map[string]Service{
		"Secret n/y":                     {Secret: Name{"n", "y"}, Webhook: "x"},
		"ConfigMap n/y":                  {Secret: Name{"n", "x"}, ConfigMap: Name{"n", "y"}},
		"MutatingWebhookConfiguration y": {Secret: Name{"n", "x"}, Webhook: "y"},
	} {
		s.Client, s.Host = fake.NewClientset(objects()...), host
		if _, err := s.Renew(t.Context(), epoch); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want one that names %s", err, name)
		}
	}
}
