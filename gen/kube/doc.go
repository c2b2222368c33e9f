// Package kube turns Kubernetes objects into core's types: pods, statuses, inventories, quotas. It also keeps a
// ledger.Book equal to what an API server has (Feed), and reduces watched objects to what that needs (Transform).
//
// Everything that is read here is untrusted. What cannot be read is an error that names the object's part and the fix;
// it never counts as zero, never panics, and never prevents another object from being read.
package kube
