// Package tile declares a made-up family. It imports nothing, so that loading it is quick.
package tile

// Tile is made up.
//
// +phasegpu:family=TILE
// +phasegpu:count=tile.example/tiles
// +phasegpu:memory=tile.example/memory
// +phasegpu:memoryBlockMiB=512
// +phasegpu:cores=tile.example/cores
// +phasegpu:defaultCores=25
// +phasegpu:inventory=tile.example/inventory
// +phasegpu:allocation=tile.example/allocation
// +phasegpu:advertised=tile.example/tiles
type Tile struct{}
