package allocate_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/refitclient"
	"github.com/phasegpu/phasegpu/gen/refit"
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
)

// service is a fake numarefit: over TLS, with the real decision, on the pods of the test's API server.
type service struct {
	*httptest.Server
	n      *node
	behave behaviour

	mu        sync.Mutex
	questions []*refit.Request
}

// behaviour is what a service makes of a question.
type behaviour func(s *service, w http.ResponseWriter, r *http.Request, q *refit.Request)

// serveRefit starts a service and has plugins started from now on ask it.
func (n *node) serveRefit(b behaviour) *service {
	n.t.Helper()
	s := &service{n: n, behave: b}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	n.t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	files := map[string][]byte{"ca.crt": ca, "token": []byte("t0ken\n")}
	for name, content := range files {
		must(n.t, os.WriteFile(filepath.Join(n.dir, name), content, 0o600))
	}
	n.client = &refitclient.Client{URL: s.URL, CAFile: filepath.Join(n.dir, "ca.crt"),
		TokenFile: filepath.Join(n.dir, "token")}
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &refit.Request{}
	if err := json.NewDecoder(r.Body).Decode(q); err != nil || q.Check() != nil ||
		r.Header.Get("Authorization") != "Bearer t0ken" {
		s.n.t.Errorf("a bad question %+v (%v) by %q", q, err, r.Header.Get("Authorization"))
	}
	s.mu.Lock()
	s.questions = append(s.questions, q)
	s.mu.Unlock()
	s.behave(s, w, r, q)
}

func (s *service) asked() []*refit.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.questions)
}

// decide decides and records.
func (s *service) decide(q *refit.Request) (*refit.Answer, *refit.Refusal) {
	n := s.n
	devices, _, _ := n.devices.Get()
	inventory, err := wire.EncodeInventory(devices)
	if err != nil {
		n.t.Error(err)
	}
	node := rt.Node()
	node.Annotations[rt.Inventory] = inventory
	n.mu.Lock()
	defer n.mu.Unlock()
	var pod *corev1.Pod
	var all []corev1.Pod
	for _, p := range n.pods {
		all = append(all, *p.DeepCopy())
		if string(p.UID) == q.Pod.UID {
			pod = p
		}
	}
	decision, refusal := refit.Decide(pod, node, all, q, refit.Defaults{})
	if refusal != nil {
		return nil, refusal
	}
	if decision.Changed {
		pod.Annotations[decision.Annotation] = decision.Value
	}
	return &refit.Answer{Devices: decision.Devices(q.Container.Position), Moved: decision.Changed}, nil
}

func write(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// works decides, records and answers.
func works(s *service, w http.ResponseWriter, _ *http.Request, q *refit.Request) {
	answer, refusal := s.decide(q)
	if refusal != nil {
		write(w, refusal.Reason.Fact().Status, refusal)
		return
	}
	write(w, http.StatusOK, answer)
}

// slow answers nothing.
func slow(_ *service, _ http.ResponseWriter, r *http.Request, _ *refit.Request) { <-r.Context().Done() }

// silent decides and records, and answers nothing.
func silent(s *service, _ http.ResponseWriter, r *http.Request, q *refit.Request) {
	if _, refusal := s.decide(q); refusal != nil {
		s.n.t.Errorf("refused: %v", refusal)
	}
	<-r.Context().Done()
}

// liar answers that it has recorded what it has not.
func liar(_ *service, w http.ResponseWriter, _ *http.Request, q *refit.Request) {
	write(w, http.StatusOK, refit.Answer{Devices: q.Allowed[:1], Moved: true})
}

// garbage is what a wrong server answers.
func garbage(_ *service, w http.ResponseWriter, _ *http.Request, _ *refit.Request) {
	write(w, http.StatusOK, strings.Repeat("x", 100))
}
