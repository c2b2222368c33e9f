// Package allocate decides which pod's record a call of kubelet is answered from.
//
// Kubelet does not say for which pod it allocates. Three facts tell:
//
//   - the pods bound to this node, read from the API server at every call, of which those are pending that
//     kubelet has not reported on (status.startTime unset): kubelet allocates for no others;
//   - kubelet's checkpoint, which lists every container that has got its ids, and is written before the
//     next call. So the next container of a pending pod is the first in position order that is not there;
//   - the entry annotation, which every answer carries and kubelet keeps in its checkpoint beside the name of
//     the container that got the answer: it names the container that the answer was meant for.
//
// A pod may have opted in to NUMA refit. Then, where kubelet's ids and the recorded devices are on different
// NUMA nodes, the refit service is asked to change the record, before it is served. The record is read again
// whatever was answered, because it alone says what is booked.
//
// Nothing is remembered between calls, so a restarted plugin goes on where it was. Whoever got what was
// meant for another (a static pod, one deleted by force) is refused when it starts, and the one it was meant
// for is not in the checkpoint and gets it when its own call comes.
package allocate
