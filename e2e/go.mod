module github.com/phasegpu/phasegpu/e2e

go 1.26.0

require (
	github.com/phasegpu/phasegpu/core v0.0.0
	github.com/phasegpu/phasegpu/gen v0.0.0
)

replace (
	github.com/phasegpu/phasegpu/core => ../core
	github.com/phasegpu/phasegpu/gen => ../gen
)
