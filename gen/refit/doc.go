// Package refit moves one container of a pod to other devices of its node. It has the request and response of
// POST /v1/refit, and the decision.
//
// The caller knows which devices kubelet's Topology Manager allows; the service knows what every pod reserves. The
// decision is pure: Kubernetes objects and a request go in, a new record or one of a closed set of reasons comes out.
package refit
