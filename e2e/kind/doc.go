// Package kind is phasegpu on real kubelets: the cluster that `make kind-up` makes and kind/deploy fills, and
// what tests do with it. The tests have the build tag kind, because they need that cluster; `make e2e` runs
// them. A test is a Story: it has a namespace of its own, and when it ends the books are compared with the API
// server's pods, its pods are removed, and the books are compared again.
//
//	func TestHandOver(t *testing.T) {
//		s := kind.Begin(t)
//		first := s.Submit(kind.Pin(s.Pod("first",
//			stack.Init("load", stack.GPU(1, 20480)), stack.App("train", stack.GPU(1, 10240))), kind.CardA))
//		s.Scheduled(first)
//		s.Finish(first, "load", 0)
//		s.Running(first, "train")
//		s.Reserved(kind.CardA, 10240)
//	}
//
// Containers run until Finish ends them with a code, whichever class they are of; see command workload.
//
// The methods of Story end the test when something does not come about; Story.Cluster has what a test does on
// any cluster of package stack, with errors instead, and what only nodes that are containers can do.
package kind
