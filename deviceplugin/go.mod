module github.com/phasegpu/phasegpu/deviceplugin

go 1.26.0
