// Package soak has pods come, run again and go at random, and checks regularly that the books equal a recomputation
// from the pods and that the extender's memory does not grow:
//
//	SOAK=30m go test -v -timeout=1h ./e2e/soak
package soak
