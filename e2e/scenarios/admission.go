package scenarios

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// admission are the stories that end at admission.
func admission() []Scenario {
	return []Scenario{
		{1, "A pod whose peak exceeds the quota is denied, with the container that makes the peak", peakOverQuota},
	}
}

func peakOverQuota(p *Play) {
	p.Node("quota", 32768)
	p.Quota(map[corev1.ResourceName]string{"limits.nvidia.com/gpumem": "24576"})
	p.Denied(
		p.Pod("train", stack.Init("load", stack.GPU(1, 30720)), stack.App("train", stack.GPU(1, 4096))),
		`"load"`, "30720", `"team"`, "24576",
	)
	p.Reserved(0)
}
