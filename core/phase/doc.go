// Package phase is the one idea of phasegpu: a pod is a sequence of phases, and at every moment it can
// use at most the largest of the phases that remain.
//
// A pod has three classes of container. An init container lives alone in its turn. A sidecar (an init
// container with restartPolicy Always) lives from its turn to the end of the pod. An app container
// lives from the end of the last init container to the end of the pod. So there is one phase per init
// container, in which it and the sidecars declared before it are alive, and a last phase, the steady
// state, in which all apps and all sidecars are.
//
//	S 2000, I1 20000, I2 5000, A 10000
//
//	phase I1      S I1        22000
//	phase I2      S    I2      7000
//	steady        S       A   12000
//
// The pod's peak is 22000. Once I1 has completed its reservation is 12000, the maximum over what
// remains, although I2 alone would need less.
//
// Nothing in this package stores anything: which phases remain is computed from what the pod's status
// says (Progress), so it comes back up when a pod's init containers run again.
//
// # From a status to a reservation
//
// Three steps, each a pure function:
//
//	Pod.Progress(Status)            how many init containers are complete in this cycle
//	Pod.First(Progress, Release)    the first phase that remains, by the pod's release policy
//	Pod.Reserved(Allocation, First) what the remaining phases can use, per device and in total
//
// Read before: package device. Read next: package placement, which finds devices for a pod.
package phase
