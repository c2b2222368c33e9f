package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/timeline"
)

const timelineUsage = `Tells the phases of a pod as they pass: which containers run in each, what they hold of which device, what has
been released when, in which phase the pod is now, and what ran again.

Usage:
  kubectl phasegpu timeline POD [-n NS]              a pod of the cluster
  kubectl phasegpu timeline POD [-n NS] -f OBJECTS   offline: a pod from files

Times are those of the pod's status, in UTC. You need the right to get the pod.
`

func timelineCommand(s streams) *cobra.Command {
	o := newOptions("timeline POD", "tell the phases of a pod, and what was released when", timelineUsage)
	o.readsFiles()
	o.readsPods()
	o.command.ValidArgsFunction = o.pods(1)
	return o.runs(s, func(ctx context.Context, s streams) (int, error) {
		release, err := o.check(&s)
		if err != nil {
			return 0, err
		}
		if o.NArg() != 1 {
			return 0, errors.New("name one pod (see timeline --help)")
		}
		pod, err := o.onePod(ctx, s, o.Arg(0))
		if err != nil {
			return 0, err
		}
		result, err := timeline.Of(pod, release, s.now())
		if err != nil {
			return 0, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		return exitFine, o.write(s, result, func() error { return result.Text(s.out, s.screen) })
	})
}

// onePod finds a pod in the files, or asks the cluster.
func (o *options) onePod(ctx context.Context, s streams, name string) (*corev1.Pod, error) {
	if len(o.files) > 0 {
		set, err := o.objects(s)
		if err != nil {
			return nil, err
		}
		return o.find(set, name)
	}
	c, err := o.cluster()
	if err != nil {
		return nil, errOffline(err)
	}
	return c.pod(ctx, name)
}
