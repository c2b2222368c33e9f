// Package kube turns Kubernetes objects into the values of core: pods, statuses, inventories, quotas.
// It also keeps a ledger.Book true to an API server (Feed), and reduces what the watches deliver to
// what that needs (Transform).
//
// Everything that is read here was written by somebody else. What cannot be read is an error that names
// the object's part and the fix; it is never taken for zero, never panics, and never keeps another
// object from being read.
package kube
