// Package simulation plays refits against everything that can happen at the same time. It has only tests.
//
// It has an API server that keeps every version of every pod; a scheduler extender with a real ledger.Book behind a
// watch that is late, skips versions and repeats them; a kubelet with its device plugin on each of two nodes; users who
// delete and create pods under the same names; an admin who edits records; and any number of refits by the real
// decide.Decider. Each is an actor that goes on only in its turn, from one call of the API server to the next. A call
// may fail, get lost, be carried out without an answer or later, or be answered late. The turns come from a seed, so a
// seed always plays the same.
//
// The properties are checked at every write, at every answer, whenever the book changes, and at the end, when all that
// was under way has arrived: against a recomputation that shares no code with the book (twin_test.go).
//
//	REFIT_INTERLEAVINGS=1000000 go test ./internal/simulation   # more of them
//	REFIT_SEED=4711 go test -v ./internal/simulation            # one of them, with a transcript
package simulation
