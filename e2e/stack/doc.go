// Package stack is a cluster with phasegpu in it, as plain processes: the control plane of package
// controlplane, the simulated nodes of package nodesim, and the product's own webhook and extender with
// kube-scheduler, installed from their manifests and each with the rights of its own service account.
package stack
