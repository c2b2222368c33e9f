// Package signals holds what is written about phasegpu's metrics to what its binaries really serve: docs/metrics.md
// is made from that, and every metric and label that alert rules and dashboard name must be among it.
//
// The binaries run beside as much of an API server as gives each of their metrics a value. There is no list
// of metrics anywhere: what has no series in that run is not there for these tests, so the binaries have all
// that they can count there from the start.
//
//	go test ./e2e/signals -update   # rewrites docs/metrics.md
package signals
