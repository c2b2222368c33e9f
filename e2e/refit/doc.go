// Package refit tests the refit service on a real API server: tokens that it issues and reviews, the rights
// that RBAC and the admission policies leave, and the extender's books after a move. Its kubelets are
// simulated; those of package kind are not.
package refit
