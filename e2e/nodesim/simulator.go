package nodesim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// restartDelay is how long a container that has ended is in back-off.
const restartDelay = 200 * time.Millisecond

// Options of a simulation. The zero value is fine.
type Options struct {
	// Writers is how many reports are written at once: kubelets are subject to the API server's flow control, the
	// simulation is not. 0: no limit.
	Writers int
}

// Simulator has the simulated nodes of one cluster. Its methods may be called from several goroutines.
type Simulator struct {
	client  kubernetes.Interface
	ctx     context.Context // of all its goroutines; ends with Stop
	stop    context.CancelFunc
	running sync.WaitGroup
	records records
	frozen  sync.RWMutex  // locked while only first reports may be written
	turns   chan struct{} // one for each report that is being written; nil without a limit

	mu       sync.Mutex
	kubelets map[string]*kubelet
	pods     map[types.UID]*podWorker
	more     chan struct{} // closed and replaced when pods gets another
	errs     []error
}

// Start watches the pods of the cluster that config leads to. Nodes are added afterwards.
func Start(ctx context.Context, config *rest.Config, o Options) (*Simulator, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "nodesim" // the API server's audit log should tell a kubelet from a test
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	s := &Simulator{
		client:   client,
		records:  records{admissions: map[string][]Admission{}, between: map[string]map[types.UID]waitedOn{}},
		kubelets: map[string]*kubelet{}, pods: map[types.UID]*podWorker{}, more: make(chan struct{}),
	}
	if o.Writers > 0 {
		s.turns = make(chan struct{}, o.Writers)
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if err := s.watch(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Stop ends the simulation and leaves nodes and pods as they are. It returns what went wrong in it: reports
// that the API server refused and plans that could not be read.
func (s *Simulator) Stop() error {
	s.stop()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}

func (s *Simulator) spawn(f func()) { s.running.Go(f) }

func (s *Simulator) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, fmt.Errorf("node simulation: %w", err))
}

// AddNode registers a node and starts its kubelet, which from then on takes the pods bound to it, also
// those that were bound before. A node of that name that exists, or was deleted, becomes the given one.
func (s *Simulator) AddNode(ctx context.Context, n Node) error {
	object, err := n.object()
	if err != nil {
		return err
	}
	s.kubelet(n.Name).configure(object.Status.Allocatable)
	_, err = s.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = s.replaceNode(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return nil
}

// replaceNode writes what AddNode decides over what is there. Annotations that are no longer wanted go away.
func (s *Simulator) replaceNode(ctx context.Context, object *corev1.Node) error {
	nodes := s.client.CoreV1().Nodes()
	for {
		old, err := nodes.Get(ctx, object.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		old.Labels, old.Annotations = object.Labels, object.Annotations
		updated, err := nodes.Update(ctx, old, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return err
		}
		updated.Status = object.Status
		if _, err = nodes.UpdateStatus(ctx, updated, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// DeleteNode deletes the Node object. Its kubelet runs on with its pods, and gets no new ones; AddNode registers the
// node again.
func (s *Simulator) DeleteNode(ctx context.Context, name string) error {
	return s.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
}

// AnnotateNode sets annotations of a node, as somebody besides its kubelet would.
func (s *Simulator) AnnotateNode(ctx context.Context, name string, annotations map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = s.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Pause stops the admission of pods on a node until Resume, as when its kubelet or device plugin hangs.
// Pods that were admitted live on.
func (s *Simulator) Pause(node string) { s.kubelet(node).pause(true) }

// Resume ends a Pause.
func (s *Simulator) Resume(node string) { s.kubelet(node).pause(false) }

// Freeze holds back all reports of all nodes until Thaw, except the first of each pod: pods are still admitted, and
// show no further change.
func (s *Simulator) Freeze() { s.frozen.Lock() }

// Thaw ends a Freeze.
func (s *Simulator) Thaw() { s.frozen.Unlock() }

// kubelet returns the kubelet of a node. The first time, it starts, and gets the pods that are there.
func (s *Simulator) kubelet(name string) *kubelet {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.kubelets[name]
	if !ok {
		k = newKubelet(s, name)
		s.kubelets[name] = k
		for _, p := range s.pods {
			if p.node == name {
				k.add(p)
			}
		}
		s.spawn(func() { k.run(s.ctx) })
	}
	return k
}
