// Package docs keeps what people read true: README.md and the pages of docs.
//
// The figures of docs/concepts.md and its picture are computed with core from kind/samples/serving.yaml;
// every annotation and every key of a ResourceQuota that the code knows is in docs/howto.md, every alert in
// docs/operations.md; links lead somewhere; and each command is run (see Commands).
package docs
