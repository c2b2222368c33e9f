// Package stack is a cluster with phasegpu in it, as plain processes: the control plane of package controlplane, the
// simulated nodes of package nodesim, and webhook, extender and kube-scheduler. These are installed from the manifests
// that users install, except their pods, and each works with the token of its own service account: what RBAC does not
// grant on a cluster fails here.
//
//	s := stack.StartT(t, stack.Options{})
//	s.Sim.AddNode(ctx, nodesim.Node{Name: "n1", Devices: nodesim.GPUs("n1", 1, 24576)})
//	d := s.Drive(t, "default")
//	pod := d.Submit(d.Pod("train", stack.Init("load", stack.GPU(1, 20480)), stack.App("train", stack.GPU(1, 10240))))
//	d.Scheduled(pod)
//	d.Finish(pod, "load", 0)
//	d.Holds(pod, 10240)
//
// Cluster has what works on a cluster of any kind; its waits take a context and fail after EventuallyTimeout with the
// last reason. Driver has the same for a test, which it ends on an error. Ledger is the extender's books, and
// AwaitAudit waits until they equal what Recompute gets from the API server's pods alone. A Witness sees every change
// of every pod, and reports each moment at which a device was over-committed. Intercept puts a handler of the test's
// between extender and API server: to count writes, to lose answers, or to delay a watch.
//
// Start builds webhook and extender from the checkout. A package with several stacks calls Build once, perhaps with
// -race, and gives the result in Options.Programs. The processes can be killed and started again:
//
//	s.Extender.Kill(); s.Extender.Start(ctx)     // returns when its books are rebuilt
//	s.Webhook.Stop(ctx)                          // pods with devices are refused now
//
// A scheduler that is killed holds its Lease for 15 s more, in which nothing is bound.
package stack
