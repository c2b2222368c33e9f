// Package allocate decides which pod's record answers a call of kubelet.
//
// Kubelet does not say for which pod it allocates. Three facts tell:
//
//   - The pods bound to this node, read from the API server at every call. Kubelet allocates only for pods on which it
//     has not reported yet (status.startTime is unset): the pending ones.
//   - Kubelet's checkpoint, which lists every container that has its ids and is written before the next call. So the
//     next container of a pending pod is the first in position order that is not listed.
//   - The entry annotation of every answer, which names the container that the answer is for. Kubelet keeps it in its
//     checkpoint beside the name of the container that got the answer.
//
// If the pod opted in to NUMA refit, and kubelet's ids and the recorded devices are on different NUMA nodes, the plugin
// asks the refit service to change the record before it serves it. It then reads the record again, whatever the answer,
// because the books follow the record alone.
//
// The plugin remembers nothing between calls, so a restart changes nothing. A container that got another container's
// answer (a static pod's, one of a pod deleted by force) is refused at its start. The other container is not in the
// checkpoint, so it gets its answer with its own call.
package allocate
