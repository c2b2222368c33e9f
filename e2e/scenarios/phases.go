package scenarios

import (
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// phases are the stories of single pods going through their phases.
func phases() []Scenario {
	return []Scenario{
		{2, "A pod is placed by its peak, not by the sum of its containers", placedByPeak},
		{3, "Memory of a finished init container goes to a pod that waits for it", wakeUp},
	}
}

func placedByPeak(p *Play) {
	p.Node("peak", 24576)
	pod := p.Submit(p.Pod("train", stack.Init("load", stack.GPU(1, 20480)), stack.App("train", stack.GPU(1, 10240))))
	p.Scheduled(pod)
	p.Reserved(20480)
}

func wakeUp(p *Play) {
	p.Node("wake", 24576)
	train := p.Submit(p.Pod("train", stack.Init("load", stack.GPU(1, 20480)), stack.App("train", stack.GPU(1, 10240))))
	p.Scheduled(train)
	p.Running(train, "load")
	p.Reserved(20480)

	second := p.Submit(p.Pod("second", stack.App("app", stack.GPU(1, 12288))))
	p.Pending(second, "memory")
	p.StillPending(second)

	p.Finish(train, "load", 0)
	p.Holds(train, 10240)
	p.Scheduled(second) // nobody touched it
	p.Reserved(22528)
}
