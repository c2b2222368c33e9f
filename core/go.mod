module github.com/phasegpu/phasegpu/core

go 1.26.0
