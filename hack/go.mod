module github.com/phasegpu/phasegpu/hack

go 1.26.0

// The version that the other modules select, so that the workspace compiles the same code as each alone.
require golang.org/x/mod v0.37.0

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	golang.org/x/perf v0.0.0-20260709024250-82a0b07e230d
)
