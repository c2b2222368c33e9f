// Package truthtable checks that the tests which docs/refit.md and docs/security.md name exist.
package truthtable
