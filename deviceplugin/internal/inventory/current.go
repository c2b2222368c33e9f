package inventory

import (
	"slices"
	"sync"

	"github.com/phasegpu/phasegpu/core/device"
)

// Current holds the node's devices and signals changes. In the zero value they are not known yet. Its methods may be
// called from any goroutine.
type Current struct {
	mu      sync.Mutex
	known   bool
	devices []device.Device
	changed chan struct{}
}

// Set replaces the devices, sorted by index; it keeps the slice.
func (c *Current) Set(devices []device.Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && slices.Equal(c.devices, devices) {
		return
	}
	c.known, c.devices = true, devices
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// Get returns the devices (read-only), whether they are known yet, and a channel that is closed when they change.
func (c *Current) Get() (devices []device.Device, known bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.devices, c.known, c.changed
}
