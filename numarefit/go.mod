module github.com/phasegpu/phasegpu/numarefit

go 1.26.0
