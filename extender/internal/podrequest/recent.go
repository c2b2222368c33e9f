package podrequest

import (
	"slices"
	"sync"
)

// Recent keeps the pods that Filter found nodes for last, because Bind is told only a pod's name and UID. It spares
// Bind a read of the pod; a pod that has dropped out costs that read and nothing else.
type Recent struct {
	mu    sync.Mutex
	size  int
	pods  map[string]*Pod
	order []string // UIDs, oldest first
}

// NewRecent keeps up to size pods.
func NewRecent(size int) *Recent { return &Recent{size: size, pods: map[string]*Pod{}} }

// most is how many bytes of selectors a pod may have to be kept: nobody needs more, and thousands of pods with
// as much as annotations may have would not fit into memory.
const most = 4 << 10

// Put keeps a pod in place of what was known of it.
func (r *Recent) Put(p *Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.Text > most {
		r.drop(p.UID) // its annotations were changed
		return
	}
	if r.pods[p.UID] == nil {
		if len(r.order) == r.size {
			delete(r.pods, r.order[0])
			r.order = r.order[1:]
		}
		r.order = append(r.order, p.UID)
	}
	r.pods[p.UID] = p
}

// Get returns a pod, or nil.
func (r *Recent) Get(uid string) *Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods[uid]
}

// Drop forgets a pod that is bound: nobody asks for it any more.
func (r *Recent) Drop(uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(uid)
}

func (r *Recent) drop(uid string) {
	if r.pods[uid] != nil {
		delete(r.pods, uid)
		i := slices.Index(r.order, uid)
		r.order = slices.Delete(r.order, i, i+1)
	}
}
