// Package controlplane runs a Kubernetes control plane as plain processes on this machine: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, at the versions that the modules kubernetes and etcd below this directory
// pin. No container engine, no root, no network.
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{})
//	defer cp.Stop()
//	client := kubernetes.NewForConfigOrDie(cp.Admin())
//
// StartT does the same for a test. A start takes two to four seconds; the first one in a tree builds the programs,
// which takes longer than a test may run: run e2e/controlplane/cmd/controlplane-build before.
//
// All ports are on 127.0.0.1, free ones that are kept over restarts. RBAC is on; admission is Kubernetes' default
// except TaintNodesByCondition. Webhooks are reached at loopback URLs; ServingCertificate gives them a certificate
// that CA signed. The controllers are those of namespaces, service accounts, quotas, garbage collection and workloads
// (Deployment, ReplicaSet, Job); no controller watches nodes. etcd does not sync its files: killing it loses nothing,
// but a power cut may.
//
// Each program is a process.Process, so that tests can stop, restart, kill and signal it:
//
//	cp.APIServer.Restart(ctx)              // keeps its data, port and tokens
//	cp.Scheduler.Signal(syscall.SIGSTOP)
//	cp.Etcd.Kill(); cp.Etcd.Start(ctx)
//
// StartScheduler starts the scheduler with a configuration. With Options.Audit, AuditLog reads the requests to the API
// server.
package controlplane
