// Package families declares the device families that phasegpu knows, one file each. classifier-gen generates from them
// everything else that has to know them: to add a family, add a file and run make generate.
//
// A declaration is a Go type with marker comments:
//
//	+phasegpu:family=WORD           type word in allocations
//	+phasegpu:count=RESOURCE        number of devices
//	+phasegpu:memory=RESOURCE       memory per device, in blocks
//	+phasegpu:memoryBlockMiB=N      MiB of one block; 1 when left out
//	+phasegpu:memoryPercent=RESOURCE  percent of a device's memory; left out when the family has none
//	+phasegpu:cores=RESOURCE        percent of a device's compute
//	+phasegpu:defaultCores=N        when a container asks for no cores; 0 (no limit) when left out
//	+phasegpu:inventory=ANNOTATION  of the node; the word capacity when the node's capacity tells it
//	+phasegpu:allocation=ANNOTATION of the pod
//	+phasegpu:advertised=RESOURCE   by kubelet, once for each; the others only phasegpu knows
//	+phasegpu:refit=true            NUMA refit is supported; left out when it is not
package families
