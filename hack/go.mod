module github.com/phasegpu/phasegpu/hack

go 1.26.0

// The version that the other modules select, so that the workspace compiles the same code as each alone.
require golang.org/x/mod v0.37.0
