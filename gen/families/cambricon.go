package families

// MLU is Cambricon's machine learning unit. Its plugin advertises cores and memory of the whole node
// and no count, and writes no inventory.
//
// +phasegpu:family=MLU
// +phasegpu:count=cambricon.com/vmlu
// +phasegpu:memory=cambricon.com/mlu.smlu.vmemory
// +phasegpu:memoryBlockMiB=256
// +phasegpu:cores=cambricon.com/mlu.smlu.vcore
// +phasegpu:defaultCores=100
// +phasegpu:inventory=capacity
// +phasegpu:allocation=hami.io/cambricon-mlu-devices-allocated
// +phasegpu:advertised=cambricon.com/mlu.smlu.vcore
// +phasegpu:advertised=cambricon.com/mlu.smlu.vmemory
type MLU struct{}
