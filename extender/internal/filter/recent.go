package filter

import (
	"slices"
	"sync/atomic"

	"k8s.io/utils/lru"

	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

// maxSelectorBytes is how many bytes of device selectors a remembered request may have: users need no more, and
// thousands of requests with as much as annotations may hold would not fit into memory.
const maxSelectorBytes = 4 << 10

// Recent remembers what Filter found out: the requests of the last pods that fitted somewhere, because Bind is given
// only a pod's name and UID, and the scores of the very last, because Prioritize follows. What is not remembered is
// parsed or computed again.
type Recent struct {
	requests *lru.Cache // *podrequest.Request by UID
	last     atomic.Pointer[rating]
}

// rating is the answer to a Filter call.
type rating struct {
	uid    string
	nodes  []string // on which the pod fits
	scores []int64  // of each of them
}

// NewRecent remembers up to size requests.
func NewRecent(size int) *Recent { return &Recent{requests: lru.New(size)} }

// Put remembers a request in place of what was known of the pod.
func (r *Recent) Put(request *podrequest.Request) {
	if request.SelectorBytes > maxSelectorBytes {
		r.requests.Remove(request.UID) // its annotations were changed
		return
	}
	r.requests.Add(request.UID, request)
}

// Get returns a pod's request, or nil.
func (r *Recent) Get(uid string) *podrequest.Request {
	request, _ := r.requests.Get(uid)
	known, _ := request.(*podrequest.Request)
	return known
}

// Drop removes the request of a pod that is bound.
func (r *Recent) Drop(uid string) { r.requests.Remove(uid) }

// scores returns the last Filter's scores if it was for this pod and left these nodes.
func (r *Recent) scores(uid string, nodes []string) []int64 {
	if last := r.last.Load(); last != nil && last.uid == uid && slices.Equal(last.nodes, nodes) {
		return last.scores
	}
	return nil
}
