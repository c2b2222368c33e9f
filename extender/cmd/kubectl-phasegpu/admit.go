package main

import (
	"fmt"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
	"github.com/phasegpu/phasegpu/gen/admission"
)

// admit adds what is wrong with a pod: err, unless nil, and warnings of what admission would refuse besides, if the pod
// is a file's and does not exist yet. Which other schedulers are allowed only the webhook knows.
func admit(set *input.Set, pod *input.Pod, err error) {
	known := ""
	if err != nil {
		known = err.Error()
		set.Fail(pod.Source, err)
	}
	if pod.File == "" || pod.UID != "" || pod.Spec.NodeName != "" || pod.Status.Phase != "" {
		return
	}
	for _, r := range admission.Review(pod.Pod, []string{pod.Spec.SchedulerName}).Refusals {
		if r.Message != known {
			set.Problems = append(set.Problems, input.Problem{
				Source: pod.Source, Err: fmt.Errorf("would not be admitted: %s", r.Message), Warning: true,
			})
		}
	}
}
