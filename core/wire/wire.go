// Package wire reads and writes the annotations in which phasegpu keeps its records, in the formats
// that HAMi established: the allocation on a pod and the device inventory on a node.
//
// Decoders accept exactly what they can account for. Anything else is an error that names the
// offending part; they never panic and never read garbage as zero.
//
// The last of the packages to read: nothing in the others depends on how a fact is written.
package wire

// Annotation keys that belong to no device family.
const (
	NodeAnnotation         = "hami.io/vgpu-node"
	TimeAnnotation         = "hami.io/vgpu-time" // Unix seconds
	CordonAnnotation       = "hami.io/device-cordon"
	NodePolicyAnnotation   = "hami.io/node-scheduler-policy"
	DevicePolicyAnnotation = "hami.io/gpu-scheduler-policy"
	NUMAAlignment          = "hami.io/numa-alignment"
	ReleaseAnnotation      = "phasegpu.io/release"
	NudgeAnnotation        = "phasegpu.io/nudge"

	// SelectorFamily is the family whose devices the four selectors below restrict.
	SelectorFamily      = "NVIDIA"
	UseUUIDAnnotation   = "nvidia.com/use-gpuuuid"
	NoUseUUIDAnnotation = "nvidia.com/nouse-gpuuuid"
	UseTypeAnnotation   = "nvidia.com/use-gputype"
	NoUseTypeAnnotation = "nvidia.com/nouse-gputype"
	NUMABindAnnotation  = "nvidia.com/numa-bind"
)
