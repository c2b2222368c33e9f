package bind

import (
	"context"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/phasegpu/phasegpu/gen/kube"
)

// slow is how long the watch may take to show a binding before the API server is asked.
const slow = 10 * time.Second

// Run asks, until the context ends, about bound pods that the watch does not show: one that was deleted while the watch
// was down is never shown, and would stay in the books and in the gate for good.
func (b *Binder) Run(ctx context.Context) { wait.UntilWithContext(ctx, b.dropDeleted, slow) }

// dropDeleted looks at the pods inside gates that are still assumed although no attempt is under way: the API server
// has confirmed their binding, so a pod that it does not have was deleted.
func (b *Binder) dropDeleted(ctx context.Context) {
	for _, state := range b.Gate.States() {
		if state.Shut < slow {
			continue
		}
		for _, p := range state.Inside {
			b.mu.Lock()
			running := b.attempts[types.UID(p.UID)] != nil
			b.mu.Unlock()
			if e := b.Book.Pod(p.UID); running || e == nil || !e.Assumed {
				continue
			}
			namespace, name, _ := cache.SplitMetaNamespaceKey(p.Name)
			call, cancel := context.WithTimeout(ctx, callTimeout)
			pod, err := b.Pods.Pods(namespace).Get(call, name, metav1.GetOptions{})
			cancel()
			if kube.IsGone(pod, err, types.UID(p.UID)) {
				b.Log.Info("pod was deleted before the watch showed it bound",
					zap.String("pod", p.Name), zap.String("node", state.Node))
				b.undo(p.UID)
			}
		}
	}
}
