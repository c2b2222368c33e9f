// Package controlplane runs a Kubernetes control plane as plain processes on this machine: etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler, built by package build at the versions that
// modules kubernetes and etcd below this directory pin. No container engine, no root, no network.
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{})
//	defer cp.Stop()
//	client := kubernetes.NewForConfigOrDie(cp.Admin())
//
// In a test, StartT does the same, stops it when the test ends and shows the logs of one that failed. A
// second start takes two to four seconds. The first one in a tree builds, for longer than a test may run;
// do that beforehand:
//
//	go run ./e2e/controlplane/cmd/controlplane-build
//
// # What it is like
//
// Everything listens on 127.0.0.1 only, on free ports that it keeps over restarts. RBAC is on; admission is
// Kubernetes' default (ServiceAccount, ResourceQuota, webhooks, validating policies and so on) but for
// TaintNodesByCondition. Webhooks are reached at loopback URLs; ServingCertificate gives them certificates
// that CA vouches for. Of the controllers run those of namespaces, service accounts, quotas, garbage
// collection and of workloads (Deployment, ReplicaSet, Job). Nobody watches over nodes: a simulated node
// stays as it says it is, and nothing taints it. etcd does not wait for its disk; killing it may lose what it
// had not yet handed to the operating system, which a process that is killed always has.
//
// # Acting on it
//
// Each program is a process.Process, so that tests can stop, start, restart, kill and signal it:
//
//	cp.APIServer.Restart(ctx)              // keeps its data, port and tokens
//	cp.Scheduler.Signal(syscall.SIGSTOP)
//	cp.Etcd.Kill(); cp.Etcd.Start(ctx)
//
// The scheduler starts only when told to, by StartScheduler, with the configuration given.
//
// With Options.Audit, AuditLog tells who asked what of the API server.
package controlplane
