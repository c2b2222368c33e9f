// Package device holds the values that every other package computes with: what a GPU has, what a
// container asks for, and what a container holds.
//
// All memory is in MiB and all compute in percent of one device; units are in the field names. Vendors
// that count memory in blocks are converted once, before a value of this package is made.
//
// A container asks with a Request: so many devices, of each so much. Once a Device is chosen, the request
// comes to an Amount of it (Request.On), and the container holds a Share: that amount of the device with
// that UUID. The shares of all containers of a pod, by position, are its Allocation.
//
// Read next: package phase, which says which of a pod's shares can be in use at the same time.
package device
