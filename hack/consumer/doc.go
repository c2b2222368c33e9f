// Package consumer holds the test that core can be used by somebody else: as a module from a proxy,
// vendored, without this workspace. The somebody else is in testdata.
package consumer
