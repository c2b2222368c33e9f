// Package deploy reads what `kubectl apply -k deploy/` would apply. Its tests hold that to the rules of
// docs/security.md, and install it on a real API server.
package deploy
