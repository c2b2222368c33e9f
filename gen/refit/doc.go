// Package refit is what it means to move one container of a pod to other devices of its node: the
// question and the answers of POST /v1/refit, and the decision itself.
//
// Whoever asks knows which devices kubelet's Topology Manager allows; who decides knows what everybody
// holds. The decision is pure: Kubernetes objects and a question go in; a record, or one reason of a
// closed set, comes out. The same objects always give the same answer, so it can be tried without writing.
package refit
