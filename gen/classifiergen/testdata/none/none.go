// Package none declares no family.
package none

// Tile is no declaration: it has no marker.
type Tile struct{}
