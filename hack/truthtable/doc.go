// Package truthtable checks that the tests which docs/refit.md names exist.
package truthtable
