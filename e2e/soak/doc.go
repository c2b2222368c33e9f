// Package soak has pods come, run again and go at random for as long as it is told, and looks from time to time
// whether the books are what the pods come to and whether the extender's memory grows:
//
//	SOAK=30m go test -v -timeout=1h ./e2e/soak
package soak
