package families

// DCU is Hygon's deep computing unit.
//
// +phasegpu:family=DCU
// +phasegpu:count=hygon.com/dcunum
// +phasegpu:memory=hygon.com/dcumem
// +phasegpu:cores=hygon.com/dcucores
// +phasegpu:inventory=hami.io/node-dcu-register
// +phasegpu:allocation=hami.io/dcu-devices-allocated
// +phasegpu:advertised=hygon.com/dcunum
type DCU struct{}
