package families

// NVIDIA is the family that phasegpu serves from end to end, its own device plugin included.
//
// +phasegpu:family=NVIDIA
// +phasegpu:count=nvidia.com/gpu
// +phasegpu:memory=nvidia.com/gpumem
// +phasegpu:memoryPercent=nvidia.com/gpumem-percentage
// +phasegpu:cores=nvidia.com/gpucores
// +phasegpu:inventory=hami.io/node-nvidia-register
// +phasegpu:allocation=hami.io/vgpu-devices-allocated
// +phasegpu:advertised=nvidia.com/gpu
// +phasegpu:refit=true
type NVIDIA struct{}
