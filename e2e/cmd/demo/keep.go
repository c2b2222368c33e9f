package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// example is a pod for the user to begin with: its containers end by themselves.
const example = `apiVersion: v1
kind: Pod
metadata:
  name: trainer
  annotations:
    # How long the simulated containers run: an exit code, and after which time.
    nodesim.phasegpu.io/plan: "load=0@30s; train=0@5m"
spec:
  restartPolicy: Never
  initContainers:
  - name: load
    image: example.test/load
    resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 20480}}
  containers:
  - name: train
    image: example.test/train
    resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 10240}}
`

// stay leaves the cluster to the user until the demo is interrupted. The cluster's processes end with this
// one, so it stays in the foreground.
func stay(ctx context.Context, cluster *stack.Stack, kubectl string, out *screen) error {
	for _, name := range []string{"demo-1", "demo-2"} {
		if err := cluster.Sim.AddNode(ctx,
			nodesim.Node{Name: name, Devices: nodesim.GPUs(name, 2, 24576)}); err != nil {
			return err
		}
	}
	kubeconfig, err := cluster.Kubeconfig("admin", cluster.Admin())
	if err != nil {
		return err
	}
	pod := filepath.Join(cluster.Dir, "trainer.yaml")
	if err := os.WriteFile(pod, []byte(example), 0o644); err != nil {
		return err
	}
	out.title("The cluster runs on, with nodes demo-1 and demo-2 of two 24576 MiB GPUs each")
	fmt.Fprintf(out, `  In another terminal:

    export KUBECONFIG=%s
    kubectl apply -f %s
    %s explain trainer

  The third shows what the pod has reserved: less after 30 seconds, when load has ended.
  Containers are simulated. They run until their pod is deleted, unless it says otherwise as this one does.
  The only scheduler here is phasegpu-scheduler, so pods that ask for no device stay pending.

  The whole ledger: %s
  Logs: %s

  Ctrl-C here ends the cluster and removes all of it.
`, kubeconfig, pod, kubectl, cluster.LedgerURL(), cluster.LogDir())
	<-ctx.Done()
	fmt.Fprintln(out)
	return nil
}
