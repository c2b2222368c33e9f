// Package device holds the values that every other package computes with: what a GPU has, what a
// container asks for, and what a container holds.
//
// All memory is in MiB and all compute in percent of one device; units are in the field names. Vendors
// that count memory in blocks are converted once, before a value of this package is made.
package device
