package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/timeline"
)

const timelineUsage = `Lists the phases of a pod as they pass: which containers run in each, what they hold of which device, what
has been released when, in which phase the pod is now, and what ran again.

Usage:
  kubectl phasegpu timeline POD [-n NS]              a pod of the cluster
  kubectl phasegpu timeline POD [-n NS] -f OBJECTS   offline: a pod from files

Times are those of the pod's status, in UTC. You need the right to get the pod.
`

func timelineCommand(s session) *cobra.Command {
	o := newOptions(s, "timeline POD", "report the phases of a pod, and what was released when", timelineUsage)
	o.readsPods()
	o.command.ValidArgsFunction = o.pods(1)
	return o.runs(func(ctx context.Context) (int, error) {
		release, err := o.check()
		if err != nil {
			return 0, err
		}
		if o.NArg() != 1 {
			return 0, errors.New("name one pod (see timeline --help)")
		}
		from, err := o.source(ctx, "-f FILE")
		if err != nil {
			return 0, err
		}
		pod, err := from.pod(ctx, o.Arg(0))
		if err != nil {
			return 0, err
		}
		result, err := timeline.New(pod, release, o.now())
		if err != nil {
			return 0, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		return o.write(result, false)
	})
}
