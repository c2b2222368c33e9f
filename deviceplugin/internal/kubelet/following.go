package kubelet

import "sync"

// Following is whether kubelet follows the plugin's list: kubelet allocates only from that list, and rejects pods
// without it. The zero value is that it does not. Its methods may be called from any goroutine.
type Following struct {
	mu      sync.Mutex
	streams int // a kubelet that is gone may still have one when its successor comes
	changed chan struct{}
}

// Get reports whether kubelet follows, and returns a channel that is closed when that is no longer so.
func (f *Following) Get() (follows bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.streams > 0, f.changed
}

func (f *Following) add(streams int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.streams > 0
	f.streams += streams
	if before != (f.streams > 0) && f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}
