// Package bench measures the whole: the same pods bound by the same kube-scheduler, alone and with the extender,
// through a real API server, to nodes that are simulated.
//
//	result, err := bench.Run(ctx, bench.Options{Nodes: 1000, GPUs: 8, Pods: 1000, Rounds: 3, Rate: 50, Inits: 50})
//	text := bench.Markdown(bench.ThisMachine("make bench-e2e"), result)
//
// Four modes take turns: kube-scheduler alone, and with the extender, each of them also while init containers
// finish on pods that were bound before. What is measured of each is a burst, pods that wait for the scheduler to
// start, and a steady part, in which pods come at a fixed rate. When a pod was created and bound, and what was asked
// of the API server by whom, is read from its audit log; processors and memory from /proc.
package bench
