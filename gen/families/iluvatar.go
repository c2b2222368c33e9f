package families

// MRV100 is Iluvatar's MR-V100. Its memory is counted in blocks of 256 MiB.
//
// +phasegpu:family=MR-V100
// +phasegpu:count=iluvatar.ai/MR-V100-vgpu
// +phasegpu:memory=iluvatar.ai/MR-V100.vMem
// +phasegpu:memoryBlockMiB=256
// +phasegpu:cores=iluvatar.ai/MR-V100.vCore
// +phasegpu:inventory=hami.io/node-MR-V100-register
// +phasegpu:allocation=hami.io/MR-V100-devices-allocated
// +phasegpu:advertised=iluvatar.ai/MR-V100-vgpu
type MRV100 struct{}

// MRV50 is Iluvatar's MR-V50. Its memory is counted in blocks of 256 MiB.
//
// +phasegpu:family=MR-V50
// +phasegpu:count=iluvatar.ai/MR-V50-vgpu
// +phasegpu:memory=iluvatar.ai/MR-V50.vMem
// +phasegpu:memoryBlockMiB=256
// +phasegpu:cores=iluvatar.ai/MR-V50.vCore
// +phasegpu:inventory=hami.io/node-MR-V50-register
// +phasegpu:allocation=hami.io/MR-V50-devices-allocated
// +phasegpu:advertised=iluvatar.ai/MR-V50-vgpu
type MRV50 struct{}

// BIV150 is Iluvatar's BI-V150. Its memory is counted in blocks of 256 MiB.
//
// +phasegpu:family=BI-V150
// +phasegpu:count=iluvatar.ai/BI-V150-vgpu
// +phasegpu:memory=iluvatar.ai/BI-V150.vMem
// +phasegpu:memoryBlockMiB=256
// +phasegpu:cores=iluvatar.ai/BI-V150.vCore
// +phasegpu:inventory=hami.io/node-BI-V150-register
// +phasegpu:allocation=hami.io/BI-V150-devices-allocated
// +phasegpu:advertised=iluvatar.ai/BI-V150-vgpu
type BIV150 struct{}

// BIV100 is Iluvatar's BI-V100. Its memory is counted in blocks of 256 MiB.
//
// +phasegpu:family=BI-V100
// +phasegpu:count=iluvatar.ai/BI-V100-vgpu
// +phasegpu:memory=iluvatar.ai/BI-V100.vMem
// +phasegpu:memoryBlockMiB=256
// +phasegpu:cores=iluvatar.ai/BI-V100.vCore
// +phasegpu:inventory=hami.io/node-BI-V100-register
// +phasegpu:allocation=hami.io/BI-V100-devices-allocated
// +phasegpu:advertised=iluvatar.ai/BI-V100-vgpu
type BIV100 struct{}
