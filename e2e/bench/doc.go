// Package bench measures the whole: pods bound per second through a real kube-scheduler and API server.
package bench
