// Package deviceplugin will hold phasegpu's kubelet device plugin over NVML. Nothing of it is written yet;
// until it is, nodes are simulated (see module e2e) and any plugin that reads HAMi's annotations serves.
//
// It will advertise the replicas of each GPU with NUMA topology and health, keep the node's inventory in
// an annotation, and hand each container the device that its pod's record names, never another's: kubelet
// does not say for which pod it allocates, so the plugin serves only while one recorded pod is pending,
// and checks afterwards what kubelet noted in its checkpoint. See docs/design.md, sections 6 and 7.
package deviceplugin
