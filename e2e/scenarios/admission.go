package scenarios

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// admission has the scenarios that end at admission.
func admission() []Scenario {
	return []Scenario{
		{1, "A pod whose peak is over the quota is denied, with the reason", peakOverQuota},
	}
}

func peakOverQuota(p *Play) {
	p.Node("quota", 32768)
	p.Quota(map[corev1.ResourceName]string{"limits.nvidia.com/gpumem": "24576"})
	p.Denied(
		p.Pod("greedy", stack.Init("load", stack.GPU(1, 30720)), stack.App("train", stack.GPU(1, 4096))),
		`init container "load"`, "peak of 30720 MiB", `ResourceQuota "team"`, "24576",
	)
	p.Reserved(0)

	// More than the quota in sum, and not in any phase.
	modest := p.Submit(p.Pod("modest", stack.Init("load", stack.GPU(1, 24576)), stack.App("train", stack.GPU(1, 4096))))
	p.Scheduled(modest)
	p.Reserved(24576)
}
