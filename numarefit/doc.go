// Package numarefit will hold the service that moves one container to another device when kubelet's
// Topology Manager offers only devices of a NUMA node on which the recorded one is not. Nothing of it is
// written yet; the decision itself is placement.Refit in module core.
//
// It will authenticate a node's device plugin by TokenReview, read the pod and its node from the API
// server, place that container anew within the devices that kubelet offers by the same phase rules as
// everything else, and patch the record with a resourceVersion precondition. It will hold no state and
// take no lock. See docs/design.md, section 7.
package numarefit
