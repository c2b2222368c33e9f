// Package signals holds what is written about phasegpu's metrics to what its binaries serve: docs/metrics.md is made from
// that, and every metric and label that alert rules and dashboard name must be among it.
//
// The binaries run on a control plane whose objects give each of their metrics a value. What has no series in that run
// does not exist for these tests, so the binaries have all that they can count from the start.
//
//	go test ./e2e/signals -update   # rewrites docs/metrics.md
package signals
