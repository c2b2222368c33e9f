package families

// AMD is for admission, scheduling and accounting beside its vendor's own device plugin.
//
// +phasegpu:family=AMD
// +phasegpu:count=amd.com/gpu
// +phasegpu:memory=amd.com/gpumem
// +phasegpu:cores=amd.com/gpucores
// +phasegpu:inventory=hami.io/node-amd-register
// +phasegpu:allocation=hami.io/amd-devices-allocated
// +phasegpu:advertised=amd.com/gpu
type AMD struct{}
