package placement

import "github.com/phasegpu/phasegpu/core/device"

// Check reports whether an allocation that is already decided fits a node, over the phases from index
// from on: Fits, or the first reason against it.
func Check(n Node, p *Pod, a device.Allocation, from int) Reason { panic("not written yet") }

// Score rates a node on which the pod has been given an allocation, from 0 to 1, by the pod's node
// policy: how full (Binpack) or how empty (Spread) the devices it uses will be at the pod's peak.
func Score(n Node, p *Pod, a device.Allocation) float64 { panic("not written yet") }

// Refit places the container at one position anew within the allowed devices, everything else of the
// allocation fixed, over the phases from index from on. n.Held is what others hold, without this pod.
// Count and amounts stay as recorded. Devices that are allowed and already held come first; then the
// ones where the pod's peak rises least. It returns the container's new shares and changes nothing.
func Refit(n Node, p *Pod, a device.Allocation, from, position int, allowed func(uuid string) bool) ([]device.Share, Reason) {
	panic("not written yet")
}
