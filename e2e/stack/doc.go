// Package stack is a cluster with phasegpu in it, as plain processes: the control plane of package
// controlplane, the simulated nodes of package nodesim, and the product's own webhook, extender and
// kube-scheduler. These are installed from the manifests that users install (webhook/manifests,
// extender/manifests), but for the pods, and each works with the token of its own service account: what
// RBAC does not grant on a cluster, fails here.
//
//	s := stack.StartT(t, stack.Options{})
//	s.Sim.AddNode(ctx, nodesim.Node{Name: "n1", Devices: nodesim.GPUs("n1", 1, 24576)})
//	pod, err := s.Create(ctx, stack.NewPod("default", "train",
//		stack.Init("load", stack.GPU(1, 20480)), stack.App("train", stack.GPU(1, 10240))))
//	pod, err = s.AwaitBound(ctx, pod)
//	err = s.AwaitReserved(ctx, pod, 20480)
//	err = s.Sim.Finish(ctx, pod, "load", 0)
//	err = s.AwaitReserved(ctx, pod, 10240)
//
// Cluster, which a Stack has, is what can be done and waited for on a cluster of any kind.
//
// What waits takes a context and gives up after EventuallyTimeout, with the last reason why what it waits for
// is not so.
//
// # Programs
//
// Start builds webhook and extender from the checkout. A package with several stacks calls
// Build once, perhaps with -race, and gives the result in Options.Programs. Webhook and Extender are
// process.Process, as are Etcd, APIServer, ControllerManager and Scheduler:
//
//	s.Extender.Kill(); s.Extender.Start(ctx)     // returns when its books are rebuilt
//	s.Extender.Signal(syscall.SIGSTOP)
//	s.Webhook.Stop(ctx)                          // pods with devices are refused now
//	s.APIServer.Restart(ctx)
//
// A scheduler that is killed rather than stopped holds its Lease for 15 s, in which nothing is bound.
//
// # What the books say
//
// Ledger is the extender's page of its books; ExtenderMetrics and WebhookMetrics are what Prometheus reads.
// Recompute works out from the API server's pods alone what the books must be, and AwaitAudit waits until
// they are. StartT also fails a test in which two pods were between bound and reported on one node.
//
// A Witness follows every pod in the order of the API server's changes, and tells of each moment at which a
// device was over-committed. Intercept puts a handler of the test's between extender and API server: to count
// what the extender writes, to lose answers, or to be late with a watch.
//
// # For a person
//
// AdminKubeconfig is the path of a kubeconfig, LogDir that of the logs, of a stack that runs.
package stack
